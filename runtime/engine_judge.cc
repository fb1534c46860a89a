// What follows from an evaluation.
#include "absl/strings/str_cat.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {

// The job's next step waits for it: the state is the one that was evaluated.
void EngineLoop::ActOnEvaluation(ActiveJob& job, const std::map<std::string, double>& values) {
  const Judgement judgement = job.judge.Decide(values);
  if (judgement.lower_rate) job.schedule.base_lr = job.judge.Lowered(job.schedule.base_lr);
  if (judgement.best) {
    job.best_note = absl::StrCat("its result is its state after step ", job.steps_done);
  }
  if (judgement.stop) {
    job.sequence.SetTotalSteps(job.steps_done);
    job.stop_note =
        absl::StrCat("stopped early after step ", job.steps_done, ": ", job.judge.WhyStopped());
  }
  if (judgement.best || judgement.stop) {
    Publish(job, [&](Board::Record& record) {
      record.info.message = absl::StrCat(
          job.stop_note, job.stop_note.empty() || job.best_note.empty() ? "" : "; ", job.best_note);
      record.info.total_steps = job.sequence.shape().total_steps;
      record.info.total_epochs = job.prepared->steps.Epochs(record.info.total_steps);
    });
  }
  if (!judgement.best) {
    job.sequence.Go();
    return;
  }
  CopyImage(job, ImageWay::kDown, job.prepared->best.data(), job.prepared->resident.state_end);
  AfterCopies(job, [this](ActiveJob& job) {
    job.sequence.Go();
    Pump(job);
  });
}

}  // namespace ebb::runtime
