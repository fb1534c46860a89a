// Jobs that take turns, as the controller decides: told to the scheduler, waited for on the
// streams, and said to those who ask.
#include "absl/strings/str_cat.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {

// What was copied in for the step goes ahead of its turn.
void EngineLoop::AwaitTurn(const scheduler::Decision& decision, device::StreamId stream) {
  // An event of its own, so that the launch's begins with the launch.
  device_->Release(device_->Record(stream));
  for (const scheduler::LaunchSeq before : decision.after) {
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

std::string EngineLoop::WhyText(JobId job) const {
  std::string why = scheduler_->Why(job);  // not const: it is moved out
  const std::optional<JobId> other = scheduler_->WhoseTurn(job);
  if (!other) return why;
  const std::string words = co_run_->Words(job, *other);
  return words.empty() ? why : absl::StrCat(why, ": ", words);
}

}  // namespace ebb::runtime
