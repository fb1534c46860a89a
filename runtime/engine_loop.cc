#include "runtime/engine_loop.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status.h"

namespace ebb::runtime {
namespace {

using memory::End;
}  // namespace

EngineLoop::EngineLoop(device::Device* device, const EngineOptions& options, Board* board)
    : device_(device), options_(options), board_(board) {}

absl::Status EngineLoop::Init() {
  pool_ = std::make_unique<memory::Pool>(&device_->granules(), options_.memory);
  if (!device_->spec().host_memory) EBB_RETURN_IF_ERROR(pool_->TakeAll());
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
  if (!device_->spec().host_memory) ahead_stream_ = device_->CreateStream();
  launches_.resize(lanes_.size() * 2);
  overlap_ = std::make_unique<OverlapTracker>(static_cast<int>(lanes_.size() * 2));
  co_run_ = std::make_unique<CoRun>(options_.co_run, static_cast<int>(lanes_.size() * 2));
  lanes_closed_ = true;
  stager_ = std::make_unique<Stager>();
  image_stager_ = std::make_unique<Stager>();
  return absl::OkStatus();
}

EngineLoop::~EngineLoop() {
  stager_.reset();
  image_stager_.reset();
  for (Lane& lane : lanes_) {
    for (const auto& streams : {lane.streams, lane.fetch_streams, lane.store_streams}) {
      for (const device::StreamId stream : streams) {
        if (stream.valid()) device_->DestroyStream(stream);
      }
    }
  }
  for (const device::StreamId stream : {aux_stream_, ahead_stream_}) {
    if (stream.valid()) device_->DestroyStream(stream);
  }
  for (const auto& stream : launches_) {
    for (const Launch& launch : stream) {
      device_->Release(launch.event);
      for (const device::EventId part : launch.parts) device_->Release(part);
    }
  }
  for (const auto* ops : {&aux_ops_, &ahead_ops_}) {
    for (const AuxOp& op : *ops) device_->Release(op.event);
  }
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
    DeviceIsLost();
    HarvestAuxiliary(&aux_ops_);
    HarvestAuxiliary(&ahead_ops_);
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

bool EngineLoop::DeviceIsLost() {
  if (lost_) return true;
  const absl::Status health = device_->Health();
  if (health.ok()) return false;
  lost_ = true;
  if (options_.on_device_lost) options_.on_device_lost(health);
  Log(LogLevel::kError, "engine: the device is lost: %s", health.message());
  std::vector<JobId> all;
  for (const auto& [id, job] : jobs_) all.push_back(id);
  for (const JobId id : all) {
    EndJob(id, JobState::kFailed, EndReason::kDevice,
           absl::StrCat("the device is lost: ", health.message()));
  }
  return true;
}

bool EngineLoop::HarvestAuxiliary(std::deque<AuxOp>* ops) {
  bool any = false;
  while (!ops->empty()) {
    const device::EventState state = device_->Query(ops->front().event);
    if (!state.complete) break;
    if (!state.status.ok()) DeviceIsLost();  // then every job is told that, not its own failure
    AuxOp op = std::move(ops->front());
    ops->pop_front();
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
      if (!state.status.ok()) DeviceIsLost();  // then every job is told that, not its own failure
      Launch launch = std::move(stream.front());
      stream.pop_front();
      const device::EventState whole = Finish(launch, state);
      OnComplete(launch, whole);
      any = true;
    }
  }
  return any;
}

// What became of the whole launch, whose events are forgotten.
device::EventState EngineLoop::Finish(Launch& launch, device::EventState state) {
  for (const device::EventId part : launch.parts) {
    // Complete, since the stream has waited for it.
    const device::EventState before = device_->Query(part);
    if (before.complete && !before.status.ok()) state.status = before.status;
    if (before.complete && part == launch.begin) state.start = std::min(state.start, before.start);
    if (before.complete && part == launch.copied) launch.copied_at = before.end;
    device_->Release(part);
  }
  device_->Release(launch.event);
  events_.erase(launch.seq);
  return state;
}

void EngineLoop::OnComplete(const Launch& launch, const device::EventState& state) {
  const Micros duration = state.end - state.start;
  overlap_->Completed(launch.stream, state.start, state.end);
  co_run_->Completed(launch.stream, state.start, state.end, launch.copied_at);
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
  job->device_time += duration;
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
    if (run->ahead) job->ahead.taken = false;
  }
  if (launch.last) {
    job->last_step_end = state.end;
    FinishStep(*job);  // may end the job
    job = Find(launch.job);
  }
  if (job != nullptr) Pump(*job);
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
  WatchFeeds(now);
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
      info.why = wait != waits.end() ? wait->second.text : job->paused ? "paused" : WhyText(*job);
      record.hungers_for = HungersFor(*job);
      if (wait != waits.end() && wait->second.left) {
        info.eta = absl::Microseconds(wait->second.left->count());
      }
    });
  }
}

DeviceReport EngineLoop::Describe() const {
  return {.spec = device_->spec(),
          .pool = pool_->budget(),
          .lanes = static_cast<int>(lanes_.size()),
          .streams = static_cast<int>(lanes_.size() * 2) + 1 + ahead_stream_.valid(),
          .policy = std::string(scheduler::Name(options_.policy)),
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
