#include "runtime/steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

namespace ebb::runtime {

int64_t TotalSteps(const StopSpec& stop, int64_t batches_per_epoch, int64_t step_rows) {
  double total = 9e15;  // exactly representable
  if (stop.steps) total = std::min(total, static_cast<double>(*stop.steps));
  if (stop.epochs) {
    total = std::min(total, std::ceil(*stop.epochs * static_cast<double>(batches_per_epoch)));
  }
  if (stop.samples) {
    total = std::min(
        total, std::ceil(static_cast<double>(*stop.samples) / static_cast<double>(step_rows)));
  }
  return static_cast<int64_t>(std::max(total, 0.0));
}

std::string EndInWords(int64_t asked, int64_t end, int64_t done) {
  if (asked >= end && end > done) return "";
  return absl::StrCat("it ends at its step ", end,
                      end <= done ? ", which is done already"
                                  : absl::StrCat(": ", done, " are done, the others prepared"));
}

int64_t StepSequence::EpochOf(int64_t step) const {
  return shape_.batches_per_epoch == 0 ? 0 : step / shape_.batches_per_epoch;
}

bool StepSequence::EvalDueAfter(int64_t done) const {
  if (shape_.eval_batches == 0 || done == 0) return false;
  if (done == shape_.total_steps) return true;
  if (shape_.eval_every_steps && done % *shape_.eval_every_steps == 0) return true;
  return shape_.eval_every_epochs &&
         done % (*shape_.eval_every_epochs * shape_.batches_per_epoch) == 0;
}

std::optional<StepItem> StepSequence::Next() {
  if (waits_) return std::nullopt;
  StepItem item;
  if (eval_batch_ >= 0) {
    item.kind = StepKind::kEval;
    item.step = step_;
    item.epoch = EpochOf(step_);
    item.batch = eval_batch_;
    item.last_of_eval = eval_batch_ + 1 == shape_.eval_batches;
    eval_batch_ = item.last_of_eval ? -1 : eval_batch_ + 1;
    waits_ = item.last_of_eval && shape_.evaluations_decide;
    return item;
  }
  if (step_ >= shape_.total_steps) return std::nullopt;
  item.kind = StepKind::kTrain;
  item.step = step_;
  item.epoch = EpochOf(step_);
  item.batch = step_ - item.epoch * shape_.batches_per_epoch;
  ++step_;
  item.last_of_epoch =
      shape_.batches_per_epoch > 0 && (EpochOf(step_) != item.epoch || step_ == shape_.total_steps);
  if (EvalDueAfter(step_)) StartEval();
  return item;
}

void StepSequence::SetTotalSteps(int64_t total_steps) {
  shape_.total_steps = std::max(total_steps, step_);
  // The end may just have moved to where the job is: its last evaluation is still due.
  if (eval_batch_ < 0 && evaluated_at_ != step_ && step_ == shape_.total_steps &&
      EvalDueAfter(step_)) {
    StartEval();
  }
}

void StepSequence::StartEval() {
  eval_batch_ = 0;
  evaluated_at_ = step_;
}

}  // namespace ebb::runtime
