// The order of a job's steps: training batches epoch by epoch, evaluations between them. A pure
// function of the spec, so that it is the same solo and co-trained, paused and resumed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "runtime/job.h"

namespace ebb::runtime {

enum class StepKind { kTrain = 0, kEval = 1 };  // = the profile's number in the scheduler

struct StepItem {
  StepKind kind = StepKind::kTrain;
  int64_t step = 0;  // kTrain: index of the optimizer step; kEval: steps done before it
  int64_t epoch = 0;
  int64_t batch = 0;           // of the epoch (kTrain) or of the validation set (kEval)
  bool last_of_epoch = false;  // kTrain: the epoch's, or the job's, last step
  bool last_of_eval = false;   // kEval
  double lr = 0;
};

// Total optimizer steps of a stopping rule; batches_per_epoch > 0 unless there is no data: then the
// rule has no epochs.
int64_t TotalSteps(const StopSpec& stop, int64_t batches_per_epoch, int64_t step_rows);

// Where a job ends whose end has been moved to `asked`, but not below the steps that it has done or
// prepared: at `end`. Empty: where it was asked to, with a step still to do.
std::string EndInWords(int64_t asked, int64_t end, int64_t done);

class StepSequence {
 public:
  struct Shape {
    int64_t batches_per_epoch = 1;  // 0: there are no data, or a feed, and no epochs
    int64_t eval_batches = 0;       // 0: no validation
    int64_t total_steps = 0;
    std::optional<int64_t> eval_every_steps;
    std::optional<int64_t> eval_every_epochs;
    // Evaluations decide what comes next: after each the sequence waits for Go().
    bool evaluations_decide = false;
    // Steps before the first evaluation that its interval, not the end, makes due.
    int64_t FirstEvaluation() const {
      int64_t first = std::numeric_limits<int64_t>::max();
      if (eval_every_steps) first = *eval_every_steps;
      if (eval_every_epochs && batches_per_epoch > 0 &&
          *eval_every_epochs < first / batches_per_epoch) {
        first = *eval_every_epochs * batches_per_epoch;
      }
      return first;
    }
    double Epochs(int64_t steps) const {
      return batches_per_epoch == 0
                 ? 0
                 : static_cast<double>(steps) / static_cast<double>(batches_per_epoch);
    }
  };
  explicit StepSequence(const Shape& shape) : shape_(shape) {}

  // The next step, or nothing when the job is at its end or waits for a decision. Learning rates
  // are not filled in.
  std::optional<StepItem> Next();
  // The evaluation that has been handed out has been decided upon.
  void Go() { waits_ = false; }
  // Changes the end; not below what has been handed out.
  void SetTotalSteps(int64_t total_steps);
  int64_t steps_handed_out() const { return step_; }
  const Shape& shape() const { return shape_; }

 private:
  int64_t EpochOf(int64_t step) const;
  bool EvalDueAfter(int64_t steps_done) const;
  void StartEval();
  Shape shape_;
  int64_t step_ = 0;           // optimizer steps handed out
  int64_t eval_batch_ = -1;    // >= 0: an evaluation is under way
  bool waits_ = false;         // for Go()
  int64_t evaluated_at_ = -1;  // steps done when the newest evaluation began
};

}  // namespace ebb::runtime
