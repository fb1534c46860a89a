// Jobs that take turns: a step of one starts only when the other's steps are all enqueued, and
// executes only after them.
#include <algorithm>

#include "scheduler/state.h"

namespace ebb::scheduler {

void Scheduler::TakeTurns(JobId a, JobId b) {
  Job &first = impl_->job(a), &second = impl_->job(b);
  EBB_CHECK(&first != &second);
  first.turns.insert(&second);
  second.turns.insert(&first);
}

void Scheduler::RunTogether(JobId a, JobId b) {
  Job &first = impl_->job(a), &second = impl_->job(b);
  first.turns.erase(&second);
  second.turns.erase(&first);
}

std::optional<JobId> Scheduler::WhoseTurn(JobId id) const {
  const Job& job = impl_->job(id);
  if (!job.ready) return std::nullopt;
  const Job* other = impl_->WhoseTurn(job);
  if (other == nullptr) return std::nullopt;
  return other->id;
}

// Ends that are taken and launches outstanding do not count, since that passes: whoever comes first
// keeps its turn meanwhile, or those that it takes turns with would go before it whatever the
// policy.
bool Scheduler::Impl::InTheRunning(const Job& job) const {
  const Lane& own = lane(job.lane);
  return job.ready && own.open && job.peak <= own.state.size();
}

// The order of the waiting ones is total, so the first of all of them waits for no turn.
const Job* Scheduler::Impl::WhoseTurn(const Job& job) const {
  if (rules.turns == SchedulerRules::Turns::kIgnored) return nullptr;
  const Job* found = nullptr;
  for (const Job* other : job.turns) {
    if (!other->in_step &&
        !(InTheRunning(*other) && StartsBefore(policy, other->queue, job.queue))) {
      continue;
    }
    // The sets have no order of their own.
    const bool before =
        found == nullptr ||
        (other->in_step != found->in_step ? other->in_step : other->id.value() < found->id.value());
    if (before) found = other;
  }
  return found;
}

std::vector<LaunchSeq> Scheduler::Impl::AfterTurns(const Job& job) const {
  std::vector<LaunchSeq> after;
  if (rules.turns == SchedulerRules::Turns::kIgnored) return after;
  for (const Job* other : job.turns) {
    if (other->newest) after.push_back(*other->newest);
  }
  std::sort(after.begin(), after.end());
  return after;
}

void Scheduler::Impl::CountOvertaken(LaneId id, End end, const Job& started) {
  const auto count = [&](Job& job) {
    most_overtaken = std::max(most_overtaken, ++job.queue.overtaken);
  };
  for (Job* other : lane(id).waiting) {
    if (CouldStart(id, end, *other)) count(*other);
  }
  for (Job* other : started.turns) {
    if (other->lane != id && InTheRunning(*other)) count(*other);
  }
}

void Scheduler::Impl::LeaveTurns(Job& job) {
  for (Job* other : job.turns) other->turns.erase(&job);
  job.turns.clear();
}

}  // namespace ebb::scheduler
