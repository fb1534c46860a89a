#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/state.h"

namespace ebb::scheduler {
namespace {

absl::Status CheckProfile(const StepProfile& step) {
  if (step.extent.empty() || step.extent.size() != step.held_after.size()) {
    return absl::InvalidArgumentError("a profile needs one extent and one held size a sub-model");
  }
  Bytes held;
  for (size_t s = 0; s < step.extent.size(); ++s) {
    if (step.extent[s] < held || step.held_after[s] < Bytes(0) ||
        step.held_after[s] > step.extent[s]) {
      return absl::InvalidArgumentError(
          absl::StrCat("sub-model ", s, ": its extent does not cover what is held"));
    }
    held = step.held_after[s];
  }
  if (held != Bytes(0)) return absl::InvalidArgumentError("a step must hold nothing at its end");
  return absl::OkStatus();
}

absl::Status CheckFits(const Job& job, LaneId id, const Lane& lane) {
  if (job.peak <= lane.state.size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("job ", job.id.value(), ": its peak of ", FormatBytes(job.peak),
                   " does not fit lane ", id.value(), " of ", FormatBytes(lane.state.size())));
}

// Leaves the job as it is if one of them is unsound.
absl::Status TakeProfiles(std::vector<StepProfile> profiles, Job& job) {
  if (profiles.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("job ", job.id.value(), " needs a profile"));
  }
  for (const StepProfile& step : profiles) {
    if (absl::Status status = CheckProfile(step); !status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("job ", job.id.value(), ": ", status.message()));
    }
  }
  job.profiles.clear();
  job.peak = Bytes(0);
  for (StepProfile& step : profiles) {
    std::vector<Bytes> need = step.extent;
    for (size_t s = need.size() - 1; s > 0; --s) need[s - 1] = std::max(need[s - 1], need[s]);
    job.peak = std::max(job.peak, need.front());
    job.profiles.push_back({std::move(step), std::move(need)});
  }
  return absl::OkStatus();
}

// A step starts on an end with fewer launches outstanding than this: enough to keep its stream fed,
// few enough that the choice of end and job is made late, when it is known which stream runs dry
// first.
constexpr int kStartBacklog = 3;

bool Sound(const JobParams& params) { return params.weight > 0 && params.max_in_flight >= 1; }

}  // namespace

Scheduler::Scheduler(Policy policy) : Scheduler(policy, SchedulerRules()) {}
Scheduler::Scheduler(Policy policy, const SchedulerRules& rules) : impl_(std::make_unique<Impl>()) {
  impl_->policy = policy;
  impl_->rules = rules;
}
Scheduler::~Scheduler() = default;

// --- lanes ---------------------------------------------------------------------------------------

LaneId Scheduler::AddLane(Bytes size) {
  const LaneId id(static_cast<int32_t>(impl_->lanes.size()));
  impl_->lanes.emplace_back(size);
  impl_->turn.push_back(id);
  return id;
}

void Scheduler::ResizeLane(LaneId id, Bytes size) {
  Lane& lane = impl_->lane(id);
  EBB_CHECK(lane.state.Drained());
  EBB_CHECK(lane.on(End::kBottom) == nullptr && lane.on(End::kTop) == nullptr);
  lane.state = memory::LaneState(size);
}

void Scheduler::CloseLane(LaneId lane) { impl_->lane(lane).open = false; }
void Scheduler::OpenLane(LaneId lane) { impl_->lane(lane).open = true; }
const memory::LaneState& Scheduler::lane(LaneId id) const { return impl_->lane(id).state; }

// --- jobs ----------------------------------------------------------------------------------------

absl::Status Scheduler::AddJob(JobId id, std::vector<StepProfile> profiles, JobParams params,
                               LaneId lane) {
  if (impl_->jobs.contains(id)) {
    return absl::AlreadyExistsError(absl::StrCat("job ", id.value(), " is scheduled already"));
  }
  if (!Sound(params)) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", id.value(), " needs a positive weight and max_in_flight >= 1"));
  }
  auto job = std::make_shared<Job>();
  job->id = id;
  job->lane = lane;
  job->queue.params = params;
  if (absl::Status status = TakeProfiles(std::move(profiles), *job); !status.ok()) return status;
  if (absl::Status status = CheckFits(*job, lane, impl_->lane(lane)); !status.ok()) return status;
  impl_->jobs.emplace(id, std::move(job));
  return absl::OkStatus();
}

absl::Status Scheduler::SetProfiles(JobId id, std::vector<StepProfile> profiles) {
  Job& job = impl_->job(id);
  if (job.in_step) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", id.value(), " has a step in flight; change it when the step has ended"));
  }
  if (job.ready && job.profile >= profiles.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("job ", id.value(), " is ready for a profile that it would no longer have"));
  }
  return TakeProfiles(std::move(profiles), job);
}

void Scheduler::UpdateJob(JobId id, JobParams params) {
  EBB_CHECK(Sound(params));
  impl_->job(id).queue.params = params;
}

absl::Status Scheduler::MoveJob(JobId id, LaneId lane) {
  Job& job = impl_->job(id);
  if (job.in_step) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", id.value(), " has a step in flight; move it when the step has ended"));
  }
  if (absl::Status status = CheckFits(job, lane, impl_->lane(lane)); !status.ok()) return status;
  const bool ready = job.ready;
  impl_->Dequeue(job);
  job.lane = lane;
  if (ready) Ready(id, static_cast<int>(job.profile));
  return absl::OkStatus();
}

void Scheduler::RemoveJob(JobId id) {
  Job& job = impl_->job(id);
  impl_->DropStep(job);
  impl_->Dequeue(job);
  impl_->LeaveTurns(job);
  impl_->jobs.erase(id);
}

// --- events --------------------------------------------------------------------------------------

void Scheduler::Ready(JobId id, int profile) {
  Job& job = impl_->job(id);
  EBB_CHECK(!job.ready && !job.in_step);
  EBB_CHECK(profile >= 0 && static_cast<size_t>(profile) < job.profiles.size());
  Lane& lane = impl_->lane(job.lane);
  if (!job.Active()) {
    // Time spent idle is not saved up: it starts level with the one that has had the least.
    std::optional<double> least;
    for (const auto& [other_id, other] : impl_->jobs) {
      if (other->lane != job.lane || !other->Active()) continue;
      least = std::min(least.value_or(other->queue.attained), other->queue.attained);
    }
    job.queue.attained = std::max(job.queue.attained, least.value_or(0));
  }
  job.ready = true;
  job.profile = static_cast<size_t>(profile);
  job.next = 0;
  job.queue.ready_order = impl_->next_ready++;
  job.queue.overtaken = 0;
  lane.waiting.push_back(&job);
}

bool Scheduler::Unready(JobId id) {
  Job& job = impl_->job(id);
  const bool was_ready = job.ready;
  impl_->Dequeue(job);
  return was_ready;
}

void Scheduler::DropStep(JobId id) { impl_->DropStep(impl_->job(id)); }

void Scheduler::Finished(LaunchSeq seq, Micros duration) {
  const auto it = impl_->launches.find(seq);
  EBB_CHECK(it != impl_->launches.end());
  const Launch& launch = it->second;
  impl_->lane(launch.lane).state.Complete(launch.end, seq);
  Job& job = *launch.job;
  --job.in_flight;
  // Its launches run one after the other, so the newest one's end is the end of all.
  if (job.newest == seq) job.newest.reset();
  const auto micros = static_cast<double>(duration.count());
  job.queue.attained += micros / job.queue.params.weight;
  if (job.service_step != launch.step) job.service = 0;
  job.service_step = launch.step;
  job.service += micros;
  if (launch.last) job.queue.step_duration = job.service;
  job.CountPending();
  impl_->launches.erase(it);
}

std::optional<Decision> Scheduler::Next() {
  for (size_t i = 0; i < impl_->turn.size(); ++i) {
    const LaneId id = impl_->turn[i];
    const End first = Other(impl_->lane(id).granted);
    std::optional<Decision> decision = impl_->TryEnd(id, first);
    if (!decision) decision = impl_->TryEnd(id, Other(first));
    if (!decision) continue;
    impl_->lane(id).granted = decision->end;
    std::rotate(impl_->turn.begin() + static_cast<std::ptrdiff_t>(i),
                impl_->turn.begin() + static_cast<std::ptrdiff_t>(i) + 1, impl_->turn.end());
    return decision;
  }
  return std::nullopt;
}

// --- decisions -----------------------------------------------------------------------------------

// A job at its run-ahead limit could not launch; one that does not fit never can; one whose last
// step is still executing on another stream would only make this one wait for it. None of them may
// hold up the others.
bool Scheduler::Impl::CouldStart(LaneId id, End end, const Job& job) const {
  const bool elsewhere = job.in_flight > 0 && (job.last_lane != id || job.last_end != end);
  return job.HasRoom() && job.peak <= lane(id).state.size() && !elsewhere;
}

// Others pass a job that waits for its turn, until it has aged.
Job* Scheduler::Impl::Head(LaneId id, End end) const {
  Job* head = nullptr;
  for (Job* job : lane(id).waiting) {
    if (!CouldStart(id, end, *job)) continue;
    if (!job->turns.empty() && !Aged(job->queue) && WhoseTurn(*job) != nullptr) continue;
    if (head != nullptr && !StartsBefore(policy, job->queue, head->queue)) continue;
    if (HeldBackBy(id, *job) == nullptr) head = job;  // dear, so asked last
  }
  return head;
}

// One of two large steps leads while the other follows close behind, so each job would start a step
// whenever the other's falls, whatever the policy.
const Job* Scheduler::Impl::HeldBackBy(LaneId id, const Job& job) const {
  if (!MayHoldBack(policy)) return nullptr;
  const Lane& lane = this->lane(id);
  const auto by = [&](const Job* other) {
    return other != nullptr && other != &job && other->peak <= lane.state.size() &&
           other->peak + job.peak > lane.state.size() && HoldsBack(policy, job.queue, other->queue);
  };
  for (const Job* other : lane.at) {
    if (by(other)) return other;
  }
  for (const Job* other : lane.waiting) {
    if (by(other)) return other;
  }
  return nullptr;
}

bool Scheduler::Impl::Prefers(LaneId id, End end, const Job& head) const {
  const memory::LaneState& state = lane(id).state;
  const int here = state.Outstanding(end), there = state.Outstanding(Other(end));
  if (Head(id, Other(end)) == nullptr || here < there) return true;
  if (here > there) return false;
  return (head.last_lane == id ? head.last_end : End::kBottom) == end;
}

bool Scheduler::Impl::Granted(const Lane& lane, End end, const Job& job) const {
  if (lane.Leads(end) || rules.test == SchedulerRules::Test::kNone) return true;
  const Bytes mine =
      rules.test == SchedulerRules::Test::kHeldAfter ? job.HeldAfter() : job.Extent();
  return mine + lane.on(Other(end))->Need() <= lane.state.size();
}

std::optional<Decision> Scheduler::Impl::TryEnd(LaneId id, End end) {
  Lane& lane = this->lane(id);
  if (Job* job = lane.on(end); job != nullptr) {
    if (!job->HasRoom() || !Granted(lane, end, *job)) return std::nullopt;
    return Enqueue(id, end, *job);
  }
  if (!lane.open || lane.waiting.empty() || lane.state.Outstanding(end) >= kStartBacklog) {
    return std::nullopt;
  }
  Job* head = Head(id, end);
  if (head == nullptr || WhoseTurn(*head) != nullptr) return std::nullopt;
  if (lane.on(Other(end)) == nullptr) {
    if (!Prefers(id, end, *head)) return std::nullopt;
    lane.leader = end;
  } else {
    lane.leader = Other(end);
    if (!Granted(lane, end, *head)) return std::nullopt;
  }
  Start(id, end, *head);
  return Enqueue(id, end, *head);
}

void Scheduler::Impl::Start(LaneId id, End end, Job& job) {
  Lane& lane = this->lane(id);
  Dequeue(job);
  CountOvertaken(id, end, job);
  job.in_step = true;
  ++job.step;
  lane.on(end) = &job;
}

Decision Scheduler::Impl::Enqueue(LaneId id, End end, Job& job) {
  Lane& lane = this->lane(id);
  EBB_CHECK(!rules.Sound() || lane.state.Fits(end, job.Extent()));
  Decision decision;
  decision.seq = LaunchSeq(next_seq++);
  decision.job = job.id;
  decision.lane = id;
  decision.end = end;
  decision.profile = static_cast<int>(job.profile);
  decision.sub_model = static_cast<int>(job.next);
  decision.first = job.next == 0;
  decision.last = job.next + 1 == job.profiles[job.profile].step.extent.size();
  if (job.last_lane != id || job.last_end != end) decision.previous = job.newest;
  const auto wait = lane.state.Enqueue(end, decision.seq,
                                       {job.id, decision.sub_model, job.Extent(), job.HeldAfter()});
  decision.wait = ApplyWaitRule(lane, end, decision.seq, wait);
  if (decision.first) decision.after = AfterTurns(job);

  launches.emplace(decision.seq,
                   Launch{jobs.find(job.id)->second, id, end, job.step, decision.last});
  ++job.in_flight;
  job.CountPending();
  job.newest = decision.seq;
  job.last_lane = id;
  job.last_end = end;
  ++job.next;
  if (decision.last) Depart(lane, end);
  return decision;
}

std::optional<LaunchSeq> Scheduler::Impl::ApplyWaitRule(const Lane& lane, End end, LaunchSeq seq,
                                                        std::optional<LaunchSeq> wait) const {
  if (!wait) return wait;
  switch (rules.waits) {
    case SchedulerRules::Waits::kBothEnds:
      return wait;
    case SchedulerRules::Waits::kTopEndOnly:
      return end == End::kTop ? wait : std::nullopt;
    case SchedulerRules::Waits::kStepsInFlight: {
      const Job* other = lane.on(Other(end));
      const Launch& launch = launches.at(*wait);
      const bool present = other == launch.job.get() && other->step == launch.step;
      return present ? wait : std::nullopt;
    }
    case SchedulerRules::Waits::kNextLaunch:
      return LaunchSeq(seq.value() + 1);
  }
  return wait;
}

void Scheduler::Impl::Depart(Lane& lane, End end) {
  lane.on(end)->in_step = false;
  lane.on(end) = nullptr;
  lane.leader = Other(end);
}

void Scheduler::Impl::Dequeue(Job& job) {
  if (!job.ready) return;
  job.ready = false;
  job.queue.overtaken = 0;
  std::erase(lane(job.lane).waiting, &job);
}

void Scheduler::Impl::DropStep(Job& job) {
  if (!job.in_step) return;
  Lane& lane = this->lane(job.lane);
  const End end = lane.on(End::kBottom) == &job ? End::kBottom : End::kTop;
  EBB_CHECK(lane.on(end) == &job);
  lane.state.Drop(end);
  Depart(lane, end);
}

}  // namespace ebb::scheduler
