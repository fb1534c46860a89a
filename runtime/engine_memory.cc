// Re-cuts of the lanes, and the ledger.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "runtime/engine_loop.h"
#include "runtime/needs.h"
#include "scheduler/packing.h"

namespace ebb::runtime {

using memory::End;

bool EngineLoop::Fits(const PreparedJob& job) const {
  std::vector<AdmissionJob> all = {NeedsOf(JobId(), job, device_->spec())};
  for (const auto& [id, other] : jobs_) {
    all.push_back(NeedsOf(id, *other->prepared, device_->spec()));
  }
  std::vector<const AdmissionJob*> jobs;
  jobs.reserve(all.size());
  for (const AdmissionJob& each : all) jobs.push_back(&each);
  return CheapestLevels({.pool = pool_->budget(), .granule = pool_->granule()}, jobs).has_value();
}

std::vector<EngineLoop::Behind> EngineLoop::BehindIn(LadderDepth depth) const {
  std::vector<Behind> behind;
  for (const auto& [id, job] : jobs_) {
    if (job->prepared->depth >= depth) continue;
    behind.push_back({id, job->prepared->Base(), job->prepared->ladder});
  }
  return behind;
}

void EngineLoop::AddLevels(JobId id, LadderDepth depth, Ladder ladder,
                           std::shared_ptr<HostBuffer> image) {
  ActiveJob* job = Find(id);
  if (job == nullptr || job->prepared->depth >= depth) return;
  PreparedJob& prepared = *job->prepared;
  EBB_CHECK(ladder.size() >= prepared.ladder.size());
  EBB_CHECK(std::equal(prepared.ladder.begin(), prepared.ladder.end(), ladder.begin()));
  if (prepared.host_image == nullptr && ladder.size() > 1) {
    const bool counts = prepared.host_share != nullptr && device_->spec().computes;
    if (counts && !prepared.host_share->Grow(prepared.resident.bytes).ok()) return;
    prepared.host_image = std::move(image);
  }
  prepared.ladder = std::move(ladder);
  prepared.depth = depth;
  if (!waiting_.empty()) recut_wanted_ = true;
}

bool EngineLoop::LanesDrained() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return scheduler_->lane(lane.id).Drained(); });
}

// Who is in the pool after a re-cut, at which level of the memory ladder.
struct EngineLoop::Cut {
  std::vector<ActiveJob*> jobs;
  std::vector<int> levels;
  size_t joining = 0;  // so many of the waiting ones, the last of `jobs`
};

// A re-cut waits for the steps in flight, and for what ended jobs still have outstanding. Meanwhile
// no step starts, so it cannot be put off for ever.
void EngineLoop::MaybeRecut() {
  if (!recut_wanted_) return;
  if (!lanes_closed_) {
    for (const Lane& lane : lanes_) scheduler_->CloseLane(lane.id);
    lanes_closed_ = true;
  }
  if (!ended_.empty() || !LanesDrained() || !ahead_ops_.empty()) return;
  const Cut cut = PlanCut();
  if (!ImagesAreReady(cut)) return;
  Recut(cut);
  recut_wanted_ = false;
}

// First come, first admitted: a small job does not overtake a large one for ever.
EngineLoop::Cut EngineLoop::PlanCut() const {
  const AdmissionState state = Admission();
  Cut cut;
  std::vector<const AdmissionJob*> needs;
  for (const AdmissionJob& job : state.running) {
    needs.push_back(&job);
    cut.jobs.push_back(jobs_.at(job.id).get());
  }
  auto levels = CheapestLevels(state, needs);
  EBB_CHECK(levels.has_value());  // They fitted before.
  cut.levels = *std::move(levels);
  for (const AdmissionJob& job : state.waiting) {
    needs.push_back(&job);
    auto with = CheapestLevels(state, needs);
    if (!with) break;
    cut.jobs.push_back(jobs_.at(job.id).get());
    cut.levels = *std::move(with);
    ++cut.joining;
  }
  return cut;
}

// A job changes its level by way of an image of its residents on the host.
bool EngineLoop::ImagesAreReady(const Cut& cut) {
  bool ready = true;
  for (size_t j = 0; j < cut.jobs.size(); ++j) {
    ActiveJob& job = *cut.jobs[j];
    if (job.image_on_its_way) ready = false;  // for an earlier cut, perhaps: no step may start yet
    if (job.region == nullptr || static_cast<int>(job.prepared->level) == cut.levels[j]) continue;
    if (job.outstanding > 0) {  // an upload, a snapshot, or the image on its way
      ready = false;
    } else if (!job.image_is_fresh) {
      MakeImage(job);
      ready = false;
    }
  }
  return ready;
}

void EngineLoop::Recut(const Cut& cut) {
  std::vector<scheduler::PackingJob> packing;
  Bytes regions;
  const size_t staying = cut.jobs.size() - cut.joining;
  std::vector<ActiveJob*> moved;  // to another level
  for (size_t j = 0; j < cut.jobs.size(); ++j) {
    ActiveJob& job = *cut.jobs[j];
    if (static_cast<int>(job.prepared->level) != cut.levels[j]) {
      job.Adopt(static_cast<size_t>(cut.levels[j]));
      if (j < staying) moved.push_back(&job);
    }
    packing.push_back({job.id, job.prepared->Peak()});
    ForgetAhead(job);
  }
  GrantAhead(cut.jobs);
  for (ActiveJob* job : cut.jobs) regions += AlignUp(job->RegionBytes(), pool_->granule());
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(cut.joining));
  std::vector<scheduler::PackedLane> packed;
  if (!packing.empty()) {
    auto result = scheduler::PackLanes(packing, pool_->budget() - regions, pool_->granule(),
                                       static_cast<int>(lanes_.size()));
    EBB_CHECK(result.ok());  // Admission keeps room for the largest peak.
    packed = *std::move(result);
  }
  packed.resize(lanes_.size());

  // Who shrinks gives its memory first.
  const auto resize_lanes = [&](bool grow) {
    for (size_t l = 0; l < lanes_.size(); ++l) {
      const Bytes size = packed[l].size, now = lanes_[l].region->size();
      if (size == now || (size > now) != grow) continue;
      EBB_CHECK(lanes_[l].region->Resize(size).ok());
      scheduler_->ResizeLane(lanes_[l].id, size);
    }
  };
  const auto resize_regions = [&](bool grow) {
    for (size_t j = 0; j < staying; ++j) {
      ActiveJob* const job = cut.jobs[j];
      const Bytes size = AlignUp(job->RegionBytes(), pool_->granule());
      if (size == job->region->size() || (size > job->region->size()) != grow) continue;
      EBB_CHECK(job->region->Resize(size).ok());
    }
  };
  resize_lanes(false);
  resize_regions(false);
  resize_regions(true);
  for (size_t j = staying; j < cut.jobs.size(); ++j) {
    auto region = pool_->Create(absl::StrCat("job ", cut.jobs[j]->id.value()),
                                cut.jobs[j]->RegionBytes(), pool_->budget());
    EBB_CHECK(region.ok());
    cut.jobs[j]->region = *std::move(region);
  }
  resize_lanes(true);
  for (ActiveJob* job : moved) {
    if (job->ready && scheduler_->Unready(job->id)) job->ready = false;
    EBB_CHECK(scheduler_->SetProfiles(job->id, job->Profiles()).ok());
    co_run_->Renew(job->id, static_cast<int>(job->Profiles()[0].extent.size()));
  }
  for (size_t l = 0; l < lanes_.size(); ++l) {
    OpenCopyStreams(lanes_[l], packed[l].jobs);
    for (const JobId id : packed[l].jobs) Join(*jobs_.at(id), lanes_[l].id);
    if (packed[l].size > Bytes(0)) scheduler_->OpenLane(lanes_[l].id);
  }
  for (ActiveJob* job : moved) Upload(*job);
  lanes_closed_ = false;
  for (ActiveJob* job : cut.jobs) FetchAhead(*job);
  pool_->CheckInvariants();
}

// The streams on which state comes and goes exist while a job of the lane has some on the host.
void EngineLoop::OpenCopyStreams(Lane& lane, const std::vector<JobId>& jobs) {
  const bool needed = std::any_of(jobs.begin(), jobs.end(), [&](JobId id) {
    return jobs_.at(id)->prepared->plan().placement.host_bytes() > Bytes(0);
  });
  for (auto* streams : {&lane.fetch_streams, &lane.store_streams}) {
    for (device::StreamId& stream : *streams) {
      if (stream.valid() == needed) continue;
      if (!needed) device_->DestroyStream(stream);
      stream = needed ? device_->CreateStream() : device::StreamId();
    }
  }
}

// The job's place after a re-cut, its first one if the scheduler does not know it yet.
void EngineLoop::Join(ActiveJob& job, LaneId id) {
  Lane& lane = lanes_[id.index()];
  const bool joins = !job.lane.valid();
  job.lane = id;
  job.BindAll(lane.region->base(), scheduler_->lane(id).size());
  if (joins) {
    EBB_CHECK(scheduler_->AddJob(job.id, job.Profiles(), ParamsOf(job), id).ok());
    co_run_->Add(job.id, static_cast<int>(job.Profiles()[0].extent.size()));
    Upload(job);
  } else {
    EBB_CHECK(scheduler_->MoveJob(job.id, id).ok());
  }
  Publish(job, [&](Board::Record& record) {
    record.info.lane = job.lane;
    record.info.state = job.paused ? JobState::kPaused : JobState::kRunning;
    record.info.resident = job.ResidentBytes();
    record.info.staging = job.StagingBytes() + job.AheadBytes();
    record.info.streamed = job.prepared->plan().placement.host_bytes();
    record.info.step_peak = job.prepared->Peak();
  });
}

MemoryReport EngineLoop::Memory() const {
  MemoryReport report;
  report.pool = pool_->budget();
  auto& classes = report.classes;
  for (const char* name : {"resident", "staging", "input", "saved", "transient", "streamed",
                           "padding", "waiting", "free"}) {
    classes[name] = Bytes(0);
  }
  const auto add_region = [&](const ActiveJob& job) {
    if (job.region == nullptr) return;
    classes["resident"] += job.ResidentBytes();
    classes["staging"] += job.StagingBytes() + job.AheadBytes();
    classes["padding"] += job.region->size() - job.RegionBytes();
  };
  for (const auto& [id, job] : jobs_) {
    add_region(*job);
    report.jobs.push_back({.job = id,
                           .name = job->prepared->spec.name,
                           .resident = job->ResidentBytes(),
                           .staging = job->StagingBytes() + job->AheadBytes(),
                           .step_peak = job->prepared->Peak(),
                           .held = Bytes(0),
                           .lane = job->lane});
  }
  for (const auto& job : ended_) add_region(*job);
  for (const Lane& lane : lanes_) {
    const memory::LaneState& state = scheduler_->lane(lane.id);
    const memory::LaneState::Totals totals = state.Sum();
    LaneReport out{.id = lane.id, .size = state.size()};
    for (const End end : {End::kBottom, End::kTop}) {
      StackReport& stack = end == End::kBottom ? out.bottom : out.top;
      const Bytes held = state.Held(end);
      stack.held = held;
      stack.waiting = state.Reach(end) - held;
      for (const memory::Block& block : state.Blocks(end)) {
        const Bytes offset =
            end == End::kBottom ? block.offset : state.size() - block.offset - block.bytes;
        stack.blocks.push_back({block.job, block.sub_model, offset, block.bytes});
      }
      if (held == Bytes(0)) continue;
      const Lane::Tide& tide = lane.tides[static_cast<int>(end)];
      stack.job = tide.job;
      const ActiveJob* job = Find(tide.job);
      EBB_CHECK(job != nullptr);  // A job that ends drops what it holds.
      const HeldBytes& by_class = job->prepared->programs()[tide.program]->held[tide.sub_model];
      classes["input"] += by_class.input;
      classes["saved"] += by_class.saved;
      classes["transient"] += by_class.transient;
      classes["streamed"] += by_class.streamed;
      classes["padding"] += by_class.padding;
      for (JobMemoryReport& memory : report.jobs) {
        if (memory.job == tide.job) memory.held += held;
      }
    }
    out.waiting = totals.waiting;
    out.free = totals.free;
    classes["waiting"] += totals.waiting;
    classes["free"] += totals.free;
    if (state.size() > Bytes(0)) report.lanes.push_back(std::move(out));
  }
  classes["free"] += pool_->free();

  Bytes sum;
  for (const auto& [name, bytes] : classes) sum += bytes;
  EBB_CHECK(sum == report.pool);
  report.outside = device_->Outside();
  report.host = HostMemory();
  return report;
}

std::map<std::string, Bytes> EngineLoop::HostMemory() const {
  Bytes data, staging, reserved, streamed, images, fed;
  std::vector<const data::DataSet*> seen;
  for (const auto& [id, job] : jobs_) {
    staging += job->prepared->StagingOnHost();
    fed += job->prepared->FeedOnHost();
    reserved += job->prepared->HostBytes(device_->spec()) - job->prepared->StagingOnHost() -
                job->prepared->FeedOnHost();
    const Bytes on_host = job->prepared->plan().placement.host_bytes();
    streamed += on_host;
    images += job->prepared->ImageBytes(device_->spec()) - on_host;
    for (const data::BatchSource& source : job->prepared->sources) {
      const data::DataSet* set = source.data.get();
      if (set == nullptr || std::count(seen.begin(), seen.end(), set)) continue;
      seen.push_back(set);
      data += set->bytes();
    }
  }
  const Bytes results = board_->ResultBytes();
  std::map<std::string, Bytes> host = {
      {"data sets", data}, {"results", results}, {"streamed state", streamed}};
  if (device_->spec().computes) host["images of state"] = images;
  if (!device_->spec().host_memory) host["staging"] = staging;
  if (fed > Bytes(0)) host["fed batches"] = fed;
  if (const auto& budget = options_.host_budget) {
    const Bytes taken = budget->taken();
    host["reserved for results"] = reserved;
    // Models, weights, indices, what is being read, and what jobs leave that are just ending.
    host["other files"] =
        std::max(taken - data - results - staging - reserved - streamed - images - fed, Bytes(0));
    host["free"] = budget->limit() - taken;
  }
  return host;
}

absl::StatusOr<ExplainReport> EngineLoop::Explain(JobId id) const {
  const ActiveJob* job = Find(id);
  if (job == nullptr) {
    if (absl::Status status = board_->Get(id).status(); !status.ok()) return status;
    return absl::FailedPreconditionError(
        absl::StrCat("job j-", id.value(), " has ended; its plan is gone"));
  }
  const StepProgram& step = *job->prepared->programs()[0];
  ExplainReport report;
  report.graph = graph::ToText(step.graph);
  for (size_t s = 0; s < step.partition.sub_models.size(); ++s) {
    const partitioner::SubModel& sub = step.partition.sub_models[s];
    report.sub_models.push_back({.first = sub.first,
                                 .last = sub.last,
                                 .phase = std::string(graph::Name(sub.phase)),
                                 .extent = step.profile.extent[s],
                                 .held_after = step.profile.held_after[s],
                                 .saved = sub.saved});
  }
  report.plan = step.plan.strategy;
  report.plan_peak = step.plan.peak;
  report.live_peak = step.live_peak;
  report.quantum = step.partition.quantum;
  report.resident = job->prepared->resident.classes;
  for (size_t l = 0; l < job->prepared->ladder.size(); ++l) {
    const MemoryPlan& plan = *job->prepared->ladder[l];
    report.ladder.push_back({.name = plan.level,
                             .region = plan.placement.device_bytes() + job->StagingBytes(),
                             .step_peak = plan.Peak(),
                             .host = plan.placement.host_bytes(),
                             .bus = plan.bus_bytes,
                             .in_use = job->region != nullptr && l == job->prepared->level});
  }
  report.admission =
      job->region == nullptr
          ? Waits().at(id).text
          : absl::StrCat("fits: region of ", FormatBytes(job->region->size()), ", lane ",
                         job->lane.value(), " of ", FormatBytes(scheduler_->lane(job->lane).size()),
                         " holds its step of ", FormatBytes(job->prepared->Peak()));
  report.next_batch = job->region == nullptr ? "" : AheadText(*job);
  report.solo_step = co_run_->SoloStep(id);
  report.pairs = co_run_->PairsOf(id);
  report.crowd = co_run_->Crowd();
  report.waiting = co_run_->Waiting(id);
  const DeviceSpec& spec = device_->spec();
  report.numerics_key = absl::StrCat(
      "device=", spec.kind, " (", spec.name, ") threads_per_stream=", spec.threads_per_stream,
      " batch=", job->prepared->spec.batch_size, " micro_batches=", PartsOf(job->prepared->spec),
      " accumulate=", job->prepared->spec.accumulate);
  return report;
}

}  // namespace ebb::runtime
