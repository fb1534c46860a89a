#include "runtime/engine_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/log.h"
#include "base/status.h"

namespace ebb::runtime {
namespace {

using memory::End;
using scheduler::Decision;

int StreamIndex(LaneId lane, End end) { return lane.value() * 2 + static_cast<int>(end); }

}  // namespace

EngineLoop::EngineLoop(device::Device* device, const EngineOptions& options, Board* board)
    : device_(device), options_(options), board_(board) {}

absl::Status EngineLoop::Init() {
  pool_ = std::make_unique<memory::Pool>(&device_->granules(), options_.memory);
  scheduler_ = std::make_unique<scheduler::Scheduler>(options_.policy);
  const int lanes =
      options_.max_lanes > 0 ? options_.max_lanes : std::max(1, device_->spec().parallelism / 2);
  for (int l = 0; l < lanes; ++l) {
    Lane lane;
    EBB_ASSIGN_OR_RETURN(lane.region,
                         pool_->Create("lane " + std::to_string(l), Bytes(0), pool_->budget()));
    lane.id = scheduler_->AddLane(Bytes(0));
    scheduler_->CloseLane(lane.id);
    lane.streams = {device_->CreateStream(), device_->CreateStream()};
    lanes_.push_back(std::move(lane));
  }
  aux_stream_ = device_->CreateStream();
  launches_.resize(lanes_.size() * 2);
  overlap_ = std::make_unique<OverlapTracker>(static_cast<int>(lanes_.size() * 2));
  co_run_ = std::make_unique<CoRun>(options_.co_run, static_cast<int>(lanes_.size() * 2));
  lanes_closed_ = true;
  stager_ = std::make_unique<Stager>();
  return absl::OkStatus();
}

EngineLoop::~EngineLoop() {
  stager_.reset();
  for (Lane& lane : lanes_) {
    for (const auto& streams : {lane.streams, lane.fetch_streams, lane.store_streams}) {
      for (const device::StreamId stream : streams) {
        if (stream.valid()) device_->DestroyStream(stream);
      }
    }
  }
  if (aux_stream_.valid()) device_->DestroyStream(aux_stream_);
  for (const auto& stream : launches_) {
    for (const Launch& launch : stream) {
      device_->Release(launch.event);
      for (const device::EventId part : launch.parts) device_->Release(part);
    }
  }
  for (const AuxOp& op : aux_ops_) device_->Release(op.event);
  jobs_.clear();
  ended_.clear();
  lanes_.clear();
}

void EngineLoop::Post(std::function<void()> command) {
  {
    MutexLock lock(&mu_);
    if (stopped_) return;
    commands_.push_back(std::move(command));
  }
  device_->Wake();
}

bool EngineLoop::Call(const std::function<void()>& command) {
  struct Rendezvous {
    Mutex mu;
    CondVar changed;
    bool done ABSL_GUARDED_BY(mu) = false;
    bool ran ABSL_GUARDED_BY(mu) = false;
  };
  // Shared, since a dropped command's closure may outlive this frame's wait.
  auto rendezvous = std::make_shared<Rendezvous>();
  const auto finish = [rendezvous](bool ran) {
    MutexLock lock(&rendezvous->mu);
    if (rendezvous->done) return;
    rendezvous->done = true;
    rendezvous->ran = ran;
    rendezvous->changed.SignalAll();
  };
  // Tells the caller also when the closure is destroyed unrun.
  auto guard = std::shared_ptr<void>(nullptr, [finish](void*) { finish(false); });
  {
    MutexLock lock(&mu_);
    if (stopped_) return false;
    commands_.push_back([&command, finish, guard = std::move(guard)] {
      command();
      finish(true);
    });
  }
  device_->Wake();
  MutexLock lock(&rendezvous->mu);
  while (!rendezvous->done) rendezvous->changed.Wait(&rendezvous->mu);
  return rendezvous->ran;
}

void EngineLoop::Stop() {
  {
    MutexLock lock(&mu_);
    stopping_ = true;
  }
  device_->Wake();
}

void EngineLoop::DrainCommands() {
  std::deque<std::function<void()>> commands;
  {
    MutexLock lock(&mu_);
    commands.swap(commands_);
  }
  for (auto& command : commands) command();
}

void EngineLoop::Run() {
  for (;;) {
    DrainCommands();
    HarvestAuxiliary();
    HarvestLaunches();
    Retire();
    MaybeRecut();
    ApplyTurns();
    while (const auto decision = scheduler_->Next()) Dispatch(*decision);
    Refresh();
    {
      MutexLock lock(&mu_);
      if (stopping_) break;
      if (!commands_.empty()) continue;
    }
    device_->AwaitProgress(absl::Milliseconds(200));
  }
  std::vector<JobId> left;
  for (const auto& [id, job] : jobs_) left.push_back(id);
  for (const JobId id : left) {
    EndJob(id, JobState::kCancelled, EndReason::kCancelled, "the daemon was shut down");
  }
  std::deque<std::function<void()>> dropped;
  MutexLock lock(&mu_);
  stopped_ = true;
  dropped.swap(commands_);
}

bool EngineLoop::HarvestAuxiliary() {
  bool any = false;
  while (!aux_ops_.empty()) {
    const device::EventState state = device_->Query(aux_ops_.front().event);
    if (!state.complete) break;
    AuxOp op = std::move(aux_ops_.front());
    aux_ops_.pop_front();
    device_->Release(op.event);
    op.done(state.status);
    any = true;
  }
  return any;
}

bool EngineLoop::HarvestLaunches() {
  bool any = false;
  for (auto& stream : launches_) {
    while (!stream.empty()) {
      const device::EventState state = device_->Query(stream.front().event);
      if (!state.complete) break;
      const Launch launch = std::move(stream.front());
      stream.pop_front();
      OnComplete(launch, Finish(launch, state));
      any = true;
    }
  }
  return any;
}

// What became of the whole launch, whose events are forgotten.
device::EventState EngineLoop::Finish(const Launch& launch, device::EventState state) {
  for (const device::EventId part : launch.parts) {
    // Complete, since the stream has waited for it.
    const device::EventState before = device_->Query(part);
    if (before.complete && !before.status.ok()) state.status = before.status;
    device_->Release(part);
  }
  device_->Release(launch.event);
  events_.erase(launch.seq);
  return state;
}

void EngineLoop::OnComplete(const Launch& launch, const device::EventState& state) {
  const Micros duration = state.end - state.start;
  overlap_->Completed(launch.stream, state.start, state.end);
  co_run_->Completed(launch.stream, state.start, state.end);
  scheduler_->Finished(launch.seq, duration);
  ActiveJob* job = Settle(launch.job, &ActiveJob::outstanding);
  if (job == nullptr) return;
  if (options_.on_launch != nullptr) {
    options_.on_launch({.job = launch.job,
                        .sub_model = launch.sub_model,
                        .last = launch.last,
                        .start = state.start,
                        .end = state.end,
                        .extent = launch.extent,
                        .held_after = launch.held_after,
                        .region = job->region->size()});
  }
  job->busy.Add(state.end, static_cast<double>(duration.count()));
  if (!job->first_start) job->first_start = state.start;
  job->rate.Begin(state.start);
  if (!state.status.ok()) {
    EndJob(launch.job, JobState::kFailed, EndReason::kDevice, std::string(state.status.message()));
    return;
  }
  if (launch.first) {
    // The batch has been copied into the stack: its slot can be filled again.
    // Steps complete in order: it is the oldest step that still has one.
    StepRun* run = job->enqueuing.get();
    for (const auto& candidate : job->running) {
      if (candidate->slot < 0) continue;
      run = candidate.get();
      break;
    }
    job->slot_busy[run->slot] = false;
    run->slot = -1;
  }
  if (launch.last) {
    job->last_step_end = state.end;
    FinishStep(*job);  // may end the job
    job = Find(launch.job);
  }
  if (job != nullptr) Pump(*job);
}

void EngineLoop::BeginStep(ActiveJob& job, const Decision& decision, Lane& lane) {
  job.ready = false;
  job.image_is_fresh = false;
  EBB_CHECK(!job.staged.empty() && job.staged.front()->staged && job.enqueuing == nullptr);
  job.enqueuing = std::move(job.staged.front());
  job.staged.pop_front();
  StepRun& run = *job.enqueuing;
  const int program = decision.profile;
  EBB_CHECK(program == static_cast<int>(run.item.kind));
  if (job.started == absl::InfinitePast()) {
    job.started = absl::Now();
    Publish(job, [&](Board::Record& record) { record.info.started = job.started; });
  }

  const device::StreamId stream = lane.streams[static_cast<int>(decision.end)];
  const StepProgram& step = *job.prepared->programs()[program];
  const auto write = [&](const char* name, auto values) {
    if (!step.graph.Find(name).valid()) return;
    device_->Write(stream, job.Resident(name, program),
                   {reinterpret_cast<const char*>(values.data()), sizeof(values)});
  };
  write("ebb.hyper",
        std::array<double, 4>{run.item.lr, static_cast<double>(run.item.step + 1), 0, 0});
  write("ebb.rng", std::array<int64_t, 2>{static_cast<int64_t>(job.prepared->spec.seed_dropout),
                                          run.item.step});

  const device::Bindings& bindings =
      job.Bind(program, decision.end, lane.region->base(), scheduler_->lane(lane.id).size());
  const auto& offsets = job.prepared->slot_offsets[program];
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    void* to = bindings.values[step.inputs[i].index()];
    if (to == nullptr) continue;  // nothing reads it
    device_->Copy(stream, to, job.Staged(run.slot, offsets[i]),
                  step.graph.value(step.inputs[i]).type.bytes());
  }
  if (step.valid.valid()) {
    if (void* to = bindings.values[step.valid.index()]) {
      device_->Copy(stream, to, job.Staged(run.slot, offsets.back()), Bytes(sizeof(int64_t)));
    }
  }
}

void EngineLoop::EndStepEnqueue(ActiveJob& job, device::StreamId stream, int program) {
  const ResidentLayout& resident = job.prepared->resident;
  const size_t metrics = job.prepared->programs()[program]->metrics.size();
  const Bytes bytes = resident.metric_stride * static_cast<int64_t>(metrics);
  job.enqueuing->metrics.resize(bytes.count());
  device_->Copy(stream, job.enqueuing->metrics.data(), job.AtImage(resident.metrics_begin[program]),
                bytes);
  job.running.push_back(std::move(job.enqueuing));
}

// The main stream computes; what is copied between host and stack runs on two streams beside it,
// from when the launch may touch its memory, and is complete when the launch is.
std::vector<device::EventId> EngineLoop::LaunchSubModel(const Lane& lane, End end,
                                                        const StepProgram& step, int sub_model,
                                                        const device::Bindings& bindings) {
  const auto e = static_cast<size_t>(end);
  const device::StreamId stream = lane.streams[e];
  const device::StreamId fetches = lane.fetch_streams[e], stores = lane.store_streams[e];
  std::vector<device::EventId> parts;
  const auto after = [&](device::StreamId waits, device::StreamId runs) {
    const device::EventId event = device_->Record(runs);
    device_->Wait(waits, event);
    parts.push_back(event);
  };
  const auto copy = [&](device::StreamId on, const std::vector<NodeId>& nodes) {
    for (const NodeId id : nodes) {
      const graph::Node& node = step.graph.node(id);
      const bool fetches_it = !node.outputs.empty();
      const ValueId to = fetches_it ? node.outputs[0] : node.inputs[0];
      const ValueId from = fetches_it ? node.inputs[0] : node.inputs[1];
      device_->Copy(on, bindings.values[to.index()], bindings.values[from.index()],
                    step.graph.value(from).type.bytes());
    }
  };
  const auto compute = [&](int first, int last) {
    device_->Launch(
        stream,
        {.program = step.program.get(), .bindings = &bindings, .first = first, .last = last});
  };
  if (step.traffic.empty() || !step.traffic[sub_model].copies()) {
    const partitioner::SubModel& sub = step.partition.sub_models[sub_model];
    compute(sub.first, sub.last);
    return parts;
  }
  const graph::Traffic& traffic = step.traffic[sub_model];
  const bool fetch = !traffic.fetch_now.empty() || !traffic.fetch_ahead.empty();
  if (fetch) after(fetches, stream);
  if (!traffic.store.empty()) after(stores, stream);
  if (!traffic.fetch_now.empty()) {
    copy(fetches, traffic.fetch_now);
    after(stream, fetches);
  }
  copy(fetches, traffic.fetch_ahead);
  copy(stores, traffic.store);
  compute(traffic.computed.first, traffic.computed.last);
  if (!traffic.store_last.empty()) {
    after(stores, stream);
    copy(stores, traffic.store_last);
  }
  if (!traffic.fetch_ahead.empty()) after(stream, fetches);
  if (!traffic.store.empty() || !traffic.store_last.empty()) after(stream, stores);
  return parts;
}

void EngineLoop::Dispatch(const Decision& decision) {
  ActiveJob* job = Find(decision.job);
  EBB_CHECK(job != nullptr);
  Lane& lane = lanes_[decision.lane.index()];
  const int stream_index = StreamIndex(decision.lane, decision.end);
  const device::StreamId stream = lane.streams[static_cast<int>(decision.end)];
  for (const auto& wait : {decision.wait, decision.previous}) {
    if (!wait) continue;
    if (const auto it = events_.find(*wait); it != events_.end()) device_->Wait(stream, it->second);
  }
  const int program = decision.profile;
  if (decision.first) BeginStep(*job, decision, lane);
  if (!decision.after.empty()) AwaitTurn(decision, stream);
  const StepProgram& step = *job->prepared->programs()[program];
  const device::Bindings& bindings =
      job->Bind(program, decision.end, lane.region->base(), scheduler_->lane(lane.id).size());
  std::vector<device::EventId> parts =
      LaunchSubModel(lane, decision.end, step, decision.sub_model, bindings);
  if (decision.last) EndStepEnqueue(*job, stream, program);

  const device::EventId event = device_->Record(stream);
  events_[decision.seq] = event;
  launches_[stream_index].push_back({.seq = decision.seq,
                                     .event = event,
                                     .parts = std::move(parts),
                                     .job = decision.job,
                                     .stream = stream_index,
                                     .first = decision.first,
                                     .last = decision.last,
                                     .sub_model = decision.sub_model,
                                     .extent = step.profile.extent[decision.sub_model],
                                     .held_after = step.profile.held_after[decision.sub_model]});
  overlap_->Launched(stream_index);
  co_run_->Launched(stream_index,
                    {.job = decision.job,
                     .program = program,
                     .sub_model = decision.sub_model,
                     .last = decision.last},
                    device_->Now());
  ++job->outstanding;
  lane.tides[static_cast<int>(decision.end)] = {decision.job, program, decision.sub_model};
  SampleLedger();
  if (decision.last) Pump(*job);
}

void EngineLoop::SampleLedger() {
  ++ledger_samples_;
  bool shared = false, deep = false;
  for (const Lane& lane : lanes_) {
    const memory::LaneState& state = scheduler_->lane(lane.id);
    const Bytes bottom = state.Held(End::kBottom), top = state.Held(End::kTop);
    if (bottom == Bytes(0) || top == Bytes(0)) continue;
    if (lane.tides[0].job == lane.tides[1].job) continue;
    shared = true;
    const ActiveJob* a = Find(lane.tides[0].job);
    const ActiveJob* b = Find(lane.tides[1].job);
    if (a == nullptr || b == nullptr) continue;
    deep |= bottom + top > std::max(a->prepared->Peak(), b->prepared->Peak());
  }
  ledger_shared_ += shared;
  ledger_deep_ += deep;
}

void EngineLoop::Refresh() {
  const Micros now = clock_.Now();
  if (now - last_refresh_ < Micros(100'000)) return;
  last_refresh_ = now;
  const Micros device_now = device_->Now();
  const std::map<JobId, Wait> waits = Waits();
  double busy = 0;
  for (const auto& [id, job] : jobs_) busy += job->busy.At(device_now);
  for (auto& [id, job] : jobs_) {
    Bytes held;
    for (const Lane& lane : lanes_) {
      for (const End end : {End::kBottom, End::kTop}) {
        if (lane.tides[static_cast<int>(end)].job == id) {
          held += scheduler_->lane(lane.id).Held(end);
        }
      }
    }
    const double steps_per_second = job->paused ? 0 : job->rate.PerSecond(device_now);
    Publish(*job, [&, &job = job](Board::Record& record) {
      JobInfo& info = record.info;
      info.held = held;
      info.share = busy > 0 ? job->busy.At(device_now) / busy : 0;
      info.steps_per_second = steps_per_second;
      info.eta.reset();
      if (steps_per_second > 0 && info.state == JobState::kRunning) {
        info.eta =
            absl::Seconds(static_cast<double>(info.total_steps - info.step) / steps_per_second);
      }
      const auto wait = waits.find(job->id);
      info.why = wait != waits.end() ? wait->second.text
                 : job->paused       ? "paused"
                                     : WhyText(job->id);
      if (wait != waits.end() && wait->second.left) {
        info.eta = absl::Microseconds(wait->second.left->count());
      }
    });
  }
}

DeviceReport EngineLoop::Describe() const {
  static constexpr const char* kPolicies[] = {"fair", "fifo", "priority", "shortest"};
  return {.spec = device_->spec(),
          .pool = pool_->budget(),
          .lanes = static_cast<int>(lanes_.size()),
          .streams = static_cast<int>(lanes_.size() * 2 + 1),
          .policy = kPolicies[static_cast<int>(options_.policy)],
          .co_run = options_.co_run};
}

OverlapReport EngineLoop::Overlap() const {
  return {.samples = ledger_samples_,
          .shared = ledger_shared_,
          .deep = ledger_deep_,
          .wall = overlap_->wall(),
          .busy = overlap_->busy(),
          .concurrent = overlap_->concurrent(),
          .most_overtaken = scheduler_->MostOvertaken()};
}

}  // namespace ebb::runtime
