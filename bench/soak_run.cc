// One mix of a soak, driven step by step: the clock stops at the instant of every action, the
// engine does what it can at that instant, the ledger is looked at, the action is taken.
#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "bench/soak.h"
#include "bench/soak_devices.h"
#include "bench/soak_judge.h"
#include "bench/zoo_jobs.h"
#include "device/check/race_check.h"
#include "model/zoo/zoo.h"
#include "runtime/engine.h"

namespace ebb::bench {
namespace {

using device::SimDevice;
using Kind = SoakAction::Kind;
using Standstill = SimDevice::Standstill;

// The engine needs milliseconds at an instant; a thread that is stuck needs for ever.
constexpr absl::Duration kStuck = absl::Minutes(2);

std::string Value(const SoakAction& action) {
  const bool has_value =
      action.kind == Kind::kWeight || action.kind == Kind::kPriority || action.kind == Kind::kStop;
  return has_value ? absl::StrCat(": ", action.value) : "";
}

class SoakRun {
 public:
  SoakRun(const SoakOptions& options, const SoakMix& mix) : options_(options), mix_(mix) {}

  absl::StatusOr<SoakOutcome> Run() {
    EBB_RETURN_IF_ERROR(Start());
    for (const SoakAction& action : mix_.actions) {
      clock_->HoldAt(action.at);
      Look(AwaitStandstill());
      EBB_RETURN_IF_ERROR(Act(action));
    }
    Finish();
    Judge();
    return std::move(outcome_);
  }

 private:
  absl::Status Start() {
    EBB_ASSIGN_OR_RETURN(std::unique_ptr<SimDevice> simulated, OpenSimulated(options_.device));
    clock_ = simulated.get();
    clock_->HoldClock();
    auto checked = device::CheckRaces(std::move(simulated), {.on_fault = [this](const auto& fault) {
                                        MutexLock lock(&races_mu_);
                                        races_.push_back(fault);
                                      }});
    auto faulty = std::make_unique<FaultDevice>(CountHeld(std::move(checked), counts_));
    faults_ = faulty.get();
    std::unique_ptr<device::Device> device = std::move(faulty);
    if (options_.between != nullptr) device = options_.between(std::move(device));
    EBB_ASSIGN_OR_RETURN(
        engine_, runtime::Engine::Create(std::move(device), {.memory = mix_.memory,
                                                             .quantum = mix_.quantum,
                                                             .max_lanes = mix_.max_lanes,
                                                             .policy = mix_.policy,
                                                             .max_in_flight = mix_.max_in_flight}));
    baseline_ = engine_->Memory();
    held_ = counts_->held();
    jobs_.resize(mix_.jobs.size());
    return absl::OkStatus();
  }

  Standstill AwaitStandstill() {
    const Standstill standstill = clock_->AwaitStandstill(kStuck);
    // A thread of the engine hangs, so that nothing here could be ended in good order.
    EBB_CHECK(standstill != Standstill::kWorking);
    return standstill;
  }

  Micros Now() const { return clock_ != nullptr ? clock_->Now() : end_; }
  void Say(const std::string& text) {
    outcome_.log.push_back(absl::StrCat(Now().count(), " us: ", text));
  }
  void Blame(int64_t SoakFaults::*kind, const std::string& text) {
    ++(outcome_.faults.*kind);
    outcome_.faulty.push_back(absl::StrCat(Now().count(), " us: ", text));
  }

  // --- the script

  absl::Status Submit(int number) {
    const SoakJob& job = mix_.jobs[number];
    EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(job.model, job.batch, job.steps));
    spec.weight = job.weight;
    spec.priority = job.priority;
    if (job.data != nullptr) {
      const std::vector<int64_t> rows(static_cast<size_t>(job.batch));  // the one there is
      spec.train = {.data = job.data, .rows = rows};
      spec.val = {.data = job.data, .rows = rows};
      spec.evaluate.every_steps = job.evaluate_every;
      ++outcome_.counts.evaluating;
    }
    JobRecord& record = jobs_[number];
    if (job.fails_at) {
      // Told apart by a node's name: the engine may compile a job's graphs when another one comes.
      const std::string tag = absl::StrCat("job", number, ":");
      EBB_ASSIGN_OR_RETURN(model::ZooModel zoo, model::BuildZooModel(job.model, job.batch));
      zoo.graph.nodes.front().name.insert(0, tag);
      spec.model = {.graph = std::make_shared<const graph::Graph>(std::move(zoo.graph))};
      record.fault = faults_->FailLaunch(tag, *job.fails_at);
    }
    EBB_ASSIGN_OR_RETURN(record.id, engine_->Submit(std::move(spec)));
    record.expected.steps = job.steps;
    ++outcome_.counts.jobs;
    return absl::OkStatus();
  }

  absl::Status Act(const SoakAction& action) {
    if (action.kind == Kind::kLook) return absl::OkStatus();
    if (action.kind == Kind::kSubmit) {
      Say(absl::StrCat("submit job ", action.job));
      return Submit(action.job);
    }
    JobRecord& record = jobs_[action.job];
    const runtime::JobInfo info = *engine_->Get(record.id);
    Say(absl::StrCat(Name(action.kind), " job ", action.job, " (", runtime::Name(info.state),
                     ", step ", info.step, " of ", info.total_steps, ")", Value(action)));
    const bool in_step = Held(record.id) > Bytes(0);
    const absl::Status status = Change(action, record.id);
    if (runtime::IsFinal(info.state)) return absl::OkStatus();  // too late: refused, or nothing
    // A job that is being saved cannot be prolonged any more.
    const bool may_refuse = action.kind == Kind::kStop && info.step == info.total_steps;
    if (may_refuse && absl::IsFailedPrecondition(status)) return absl::OkStatus();
    if (!status.ok()) Blame(&SoakFaults::aborts, std::string(status.message()));
    switch (action.kind) {
      case Kind::kCancel:
        record.expected.cancelled = true;
        ++outcome_.counts.cancels;
        if (in_step) ++outcome_.counts.cancels_in_step;
        break;
      case Kind::kPause:
        ++outcome_.counts.pauses;
        break;
      case Kind::kResume:
        break;
      case Kind::kStop: {
        const runtime::JobInfo after = *engine_->Get(record.id);
        const std::string fault = JudgeNewEnd(info, action.value, after);
        if (!fault.empty()) Blame(&SoakFaults::aborts, fault);
        record.expected.steps = after.total_steps;
        [[fallthrough]];
      }
      default:
        ++outcome_.counts.updates;
    }
    return absl::OkStatus();
  }

  absl::Status Change(const SoakAction& action, JobId id) {
    switch (action.kind) {
      case Kind::kWeight:
        return engine_->Update(id, {.weight = static_cast<double>(action.value) / 8});
      case Kind::kPriority:
        return engine_->Update(id, {.priority = static_cast<int>(action.value)});
      case Kind::kStop:
        return engine_->Update(id, {.stop = runtime::StopSpec{.steps = action.value}});
      case Kind::kPause:
        return engine_->Pause(id);
      case Kind::kResume:
        return engine_->Resume(id);
      default:
        return engine_->Cancel(id);
    }
  }

  Bytes Held(JobId id) const {
    for (const auto& job : engine_->Memory().jobs) {
      if (job.job == id) return job.held;
    }
    return Bytes(0);
  }

  // --- what is seen

  void Look(Standstill standstill) {
    ++outcome_.counts.looks;
    const std::string ledger = JudgeLedger(engine_->Memory());
    if (!ledger.empty()) Blame(&SoakFaults::ledger_errors, ledger);
    for (const runtime::JobInfo& info : engine_->List()) {
      if (info.state == runtime::JobState::kQueued) queued_.insert(info.id);
    }
    if (standstill != Standstill::kAtRest || outcome_.faults.deadlocks > 0) return;
    const std::string stuck = JudgeRest(engine_->List());
    if (!stuck.empty()) Blame(&SoakFaults::deadlocks, stuck);
  }

  bool AllFinal() const {
    const auto jobs = engine_->List();
    return std::all_of(jobs.begin(), jobs.end(),
                       [](const auto& info) { return runtime::IsFinal(info.state); });
  }

  // Nothing more is done to the jobs: all go on to their ends, or never get there.
  void Finish() {
    const Micros stride = std::max(Micros(1), mix_.span / 8);
    for (;;) {
      clock_->HoldAt(clock_->Now() + stride);
      const Standstill standstill = AwaitStandstill();
      Look(standstill);
      if (standstill != Standstill::kAtRest) continue;
      if (AllFinal() || outcome_.faults.deadlocks > 0) return;
    }
  }

  void Judge() {
    SoakCounts& counts = outcome_.counts;
    for (JobRecord& record : jobs_) {
      const runtime::JobInfo info = *engine_->Get(record.id);
      record.expected.failed = record.fault != nullptr && record.fault->fired();
      counts.steps += info.step;
      counts.failures += record.expected.failed ? 1 : 0;
      Say(absl::StrCat("job j-", info.id.value(), " ", runtime::Name(info.state), " after ",
                       info.step, " steps ", info.message));
      if (outcome_.faults.deadlocks > 0) continue;  // said already
      const std::string fault = JudgeEnd(info, record.expected);
      if (!fault.empty()) Blame(&SoakFaults::aborts, fault);
    }
    const runtime::OverlapReport overlap = engine_->Overlap();
    counts.queued = static_cast<int64_t>(queued_.size());
    counts.overlapping = overlap.shared > 0 ? 1 : 0;
    counts.deep = overlap.deep > 0 ? 1 : 0;
    counts.most_overtaken = overlap.most_overtaken;
    counts.device_seconds = static_cast<double>(clock_->Now().count()) / 1e6;
    const std::string waited =
        JudgeWait(overlap.most_overtaken, static_cast<int64_t>(mix_.jobs.size()));
    if (!waited.empty()) Blame(&SoakFaults::starved, waited);
    JudgeLeftovers();
    MutexLock lock(&races_mu_);
    for (const std::string& race : races_) Blame(&SoakFaults::races, race);
  }

  void JudgeLeftovers() {
    std::string fault;
    if (outcome_.faults.deadlocks == 0) {
      fault = JudgeBaseline(baseline_, engine_->Memory());
      if (fault.empty()) fault = JudgeHeld(held_);
    }
    clock_->ReleaseClock();
    end_ = clock_->Now();
    clock_ = nullptr;
    faults_ = nullptr;
    engine_.reset();
    if (fault.empty()) fault = JudgeHeld({});
    if (!fault.empty()) Blame(&SoakFaults::ledger_errors, fault);
  }

  std::string JudgeHeld(const DeviceCounts::Held& before) const {
    const DeviceCounts::Held now = counts_->held();
    if (now == before) return "";
    return absl::StrCat("not given back to the device: ", now.streams - before.streams,
                        " streams, ", now.events - before.events, " events, ",
                        (now.reserved - before.reserved).count(), " bytes of addresses and ",
                        (now.committed - before.committed).count(), " of memory");
  }

  struct JobRecord {
    JobId id;
    std::shared_ptr<const FaultDevice::Fault> fault;
    ExpectedEnd expected;
  };

  const SoakOptions& options_;
  const SoakMix& mix_;
  SoakOutcome outcome_;
  std::shared_ptr<DeviceCounts> counts_ = std::make_shared<DeviceCounts>();
  SimDevice* clock_ = nullptr;  // the engine's, as the following
  FaultDevice* faults_ = nullptr;
  Micros end_;
  Mutex races_mu_;
  std::vector<std::string> races_ ABSL_GUARDED_BY(races_mu_);
  runtime::MemoryReport baseline_;
  DeviceCounts::Held held_;
  std::vector<JobRecord> jobs_;
  std::set<JobId> queued_;                   // seen waiting for memory
  std::unique_ptr<runtime::Engine> engine_;  // first to go
};

}  // namespace

absl::StatusOr<SoakOutcome> RunSoakMix(const SoakOptions& options, const SoakMix& mix) {
  return SoakRun(options, mix).Run();
}

}  // namespace ebb::bench
