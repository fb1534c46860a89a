// Jobs that take turns and sub-models that wait for each other, as the controller decides: told to
// the scheduler, waited for on the streams, and said to those who ask.
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {

// What is copied in for the step goes ahead of its turn, and is known from its kernels.
void EngineLoop::AwaitTurn(const scheduler::Decision& decision, device::StreamId stream,
                           Launch* launch) {
  launch->copied = device_->Record(stream);
  launch->parts.push_back(launch->copied);
  if (decision.after.empty() && launch->before.empty()) launch->begin = launch->copied;
  for (const scheduler::LaunchSeq before : decision.after) {
    if (const auto it = events_.find(before); it != events_.end()) {
      device_->Wait(stream, it->second);
    }
  }
}

// Launches of its own stream and copies beside it go ahead; only kernels wait.
void EngineLoop::AwaitOthers(device::StreamId stream, const Launch& launch) {
  for (const scheduler::LaunchSeq before : launch.before) {
    if (const auto it = events_.find(before); it != events_.end()) {
      device_->Wait(stream, it->second);
    }
  }
}

void EngineLoop::ApplyTurns() {
  for (const CoRun::Change& change : co_run_->TakeChanges()) {
    if (change.turns) {
      scheduler_->TakeTurns(change.a, change.b);
    } else {
      scheduler_->RunTogether(change.a, change.b);
    }
  }
}

std::string EngineLoop::WhyText(const ActiveJob& job) const {
  if (HungersFor(job)) return "";             // the board says that
  std::string why = scheduler_->Why(job.id);  // not const: it is moved out
  const std::optional<JobId> other = scheduler_->WhoseTurn(job.id);
  if (!other || !absl::StartsWith(why, "takes turns")) return why;
  const std::string words = co_run_->Words(job.id, *other);
  return words.empty() ? why : absl::StrCat(why, ": ", words);
}

}  // namespace ebb::runtime
