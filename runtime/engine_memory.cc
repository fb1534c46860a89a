// Re-cuts of the lanes, and the ledger.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "runtime/engine_loop.h"
#include "scheduler/packing.h"

namespace ebb::runtime {

using memory::End;

bool EngineLoop::LanesDrained() const {
  return std::all_of(lanes_.begin(), lanes_.end(),
                     [&](const Lane& lane) { return scheduler_->lane(lane.id).Drained(); });
}

// A re-cut waits for the steps in flight, and for what ended jobs still have outstanding. Meanwhile
// no step starts, so it cannot be put off for ever.
void EngineLoop::MaybeRecut() {
  if (!recut_wanted_) return;
  if (!lanes_closed_) {
    for (const Lane& lane : lanes_) scheduler_->CloseLane(lane.id);
    lanes_closed_ = true;
  }
  if (!ended_.empty() || !LanesDrained()) return;
  Recut();
  recut_wanted_ = false;
}

void EngineLoop::Recut() {
  std::vector<scheduler::PackingJob> packing;
  Bytes regions;
  for (const auto& [id, job] : jobs_) {
    if (job->region == nullptr) continue;
    packing.push_back({id, job->prepared->Peak()});
    regions += job->region->size();
  }
  // First come, first admitted: a small job does not overtake a large one for ever.
  std::vector<ActiveJob*> joining;
  Bytes peak;
  for (const auto& p : packing) peak = std::max(peak, p.peak);
  const Bytes granule = pool_->granule();
  while (!waiting_.empty()) {
    ActiveJob* job = jobs_.at(waiting_.front()).get();
    const Bytes region = AlignUp(job->RegionBytes(), granule);
    const Bytes lane = AlignUp(std::max(peak, job->prepared->Peak()), granule);
    if (regions + region + lane > pool_->budget()) break;
    regions += region;
    peak = std::max(peak, job->prepared->Peak());
    packing.push_back({job->id, job->prepared->Peak()});
    joining.push_back(job);
    waiting_.pop_front();
  }
  std::vector<scheduler::PackedLane> packed;
  if (!packing.empty()) {
    auto result = scheduler::PackLanes(packing, pool_->budget() - regions, granule,
                                       static_cast<int>(lanes_.size()));
    EBB_CHECK(result.ok());  // Admission keeps room for the largest peak.
    packed = *std::move(result);
  }
  packed.resize(lanes_.size());

  // Lanes that shrink give their memory first, then regions are made, then lanes grow.
  const auto resize = [&](size_t l, Bytes size) {
    EBB_CHECK(lanes_[l].region->Resize(size).ok());
    scheduler_->ResizeLane(lanes_[l].id, size);
  };
  for (size_t l = 0; l < lanes_.size(); ++l) {
    if (packed[l].size < lanes_[l].region->size()) resize(l, packed[l].size);
  }
  for (ActiveJob* job : joining) {
    auto region = pool_->Create(absl::StrCat("job ", job->id.value()), job->RegionBytes());
    EBB_CHECK(region.ok());
    job->region = *std::move(region);
  }
  for (size_t l = 0; l < lanes_.size(); ++l) {
    if (packed[l].size > lanes_[l].region->size()) resize(l, packed[l].size);
  }
  for (size_t l = 0; l < lanes_.size(); ++l) {
    for (const JobId id : packed[l].jobs) {
      ActiveJob& job = *jobs_.at(id);
      job.lane = lanes_[l].id;
      job.BindAll(lanes_[l].region->base(), packed[l].size);
      if (std::count(joining.begin(), joining.end(), &job)) {
        std::vector<scheduler::StepProfile> profiles;
        for (const auto& step : job.prepared->programs) {
          if (step) profiles.push_back(step->profile);
        }
        EBB_CHECK(scheduler_->AddJob(id, std::move(profiles), ParamsOf(job), lanes_[l].id).ok());
        Upload(job);
      } else {
        EBB_CHECK(scheduler_->MoveJob(id, lanes_[l].id).ok());
      }
      Publish(job, [&](Board::Record& record) {
        record.info.lane = job.lane;
        record.info.state = job.paused ? JobState::kPaused : JobState::kRunning;
      });
    }
    if (packed[l].size > Bytes(0)) scheduler_->OpenLane(lanes_[l].id);
  }
  lanes_closed_ = false;
  pool_->CheckInvariants();
}

MemoryReport EngineLoop::Memory() const {
  MemoryReport report;
  report.pool = pool_->budget();
  auto& classes = report.classes;
  for (const char* name :
       {"resident", "staging", "input", "saved", "transient", "padding", "waiting", "free"}) {
    classes[name] = Bytes(0);
  }
  const auto add_region = [&](const ActiveJob& job) {
    if (job.region == nullptr) return;
    classes["resident"] += job.ResidentBytes();
    classes["staging"] += job.StagingBytes();
    classes["padding"] += job.region->size() - job.RegionBytes();
  };
  for (const auto& [id, job] : jobs_) {
    add_region(*job);
    report.jobs.push_back({.job = id,
                           .name = job->prepared->spec.name,
                           .resident = job->ResidentBytes(),
                           .staging = job->StagingBytes(),
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
      const HeldBytes& by_class = job->prepared->programs[tide.program]->held[tide.sub_model];
      classes["input"] += by_class.input;
      classes["saved"] += by_class.saved;
      classes["transient"] += by_class.transient;
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
  report.host = HostMemory();
  return report;
}

std::map<std::string, Bytes> EngineLoop::HostMemory() const {
  Bytes data, staging, reserved;
  std::vector<const data::DataSet*> seen;
  for (const auto& [id, job] : jobs_) {
    staging += job->prepared->StagingOnHost();
    reserved += job->prepared->ResultBytes(device_->spec());
    for (const data::BatchSource& source : job->prepared->sources) {
      const data::DataSet* set = source.data.get();
      if (set == nullptr || std::count(seen.begin(), seen.end(), set)) continue;
      seen.push_back(set);
      data += set->bytes();
    }
  }
  const Bytes results = board_->ResultBytes();
  std::map<std::string, Bytes> host = {{"data sets", data}, {"results", results}};
  if (!device_->spec().host_memory) host["staging"] = staging;
  if (const auto& budget = options_.host_budget) {
    const Bytes taken = budget->taken();
    host["reserved for results"] = reserved;
    // Models, weights, indices, what is being read, and what jobs leave that are just ending.
    host["other files"] = std::max(taken - data - results - staging - reserved, Bytes(0));
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
  const StepProgram& step = *job->prepared->programs[0];
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
  report.admission =
      job->region == nullptr
          ? Waits().at(id).text
          : absl::StrCat("fits: region of ", FormatBytes(job->region->size()), ", lane ",
                         job->lane.value(), " of ", FormatBytes(scheduler_->lane(job->lane).size()),
                         " holds its step of ", FormatBytes(job->prepared->Peak()));
  const DeviceSpec& spec = device_->spec();
  report.numerics_key = absl::StrCat("device=", spec.kind, " (", spec.name,
                                     ") threads_per_stream=", spec.threads_per_stream,
                                     " batch=", job->prepared->spec.batch_size);
  return report;
}

}  // namespace ebb::runtime
