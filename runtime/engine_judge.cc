// What ends a job early, or changes its course: an evaluation, or the device time that it has had.
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {

// Its notes, and where it ends.
void EngineLoop::PublishEnd(const ActiveJob& job) {
  Publish(job, [&](Board::Record& record) {
    record.info.message = absl::StrCat(
        job.stop_note, job.stop_note.empty() || job.best_note.empty() ? "" : "; ", job.best_note);
    record.info.total_steps = job.sequence.shape().total_steps;
    record.info.total_epochs = job.prepared->steps.Epochs(record.info.total_steps);
  });
}

// The job's next step waits for it: the state is the one that was evaluated.
void EngineLoop::ActOnEvaluation(ActiveJob& job, const std::map<std::string, double>& values) {
  const Judgement judgement = job.judge.Decide(values);
  if (judgement.lower_rate) job.schedule.base_lr = job.judge.Lowered(job.schedule.base_lr);
  if (judgement.best) {
    job.best_note = absl::StrCat("its result is its state after step ", job.steps_done);
  }
  if (judgement.stop) {
    MoveEnd(job, job.steps_done);
    job.stop_note =
        absl::StrCat("stopped early after step ", job.steps_done, ": ", job.judge.WhyStopped());
  }
  if (judgement.best || judgement.stop) PublishEnd(job);
  if (!judgement.best) {
    job.sequence.Go();
    return;
  }
  CopyImage(job, ImageWay::kDown, job.prepared->best->base(), job.prepared->resident.state_end);
  AfterCopies(job, [this](ActiveJob& job) {
    job.sequence.Go();
    Pump(job);
  });
}

// What has been prepared is done still, so that the end does not cut a step.
void EngineLoop::CheckDeviceTime(ActiveJob& job) {
  if (!job.device_time_limit || job.device_time < *job.device_time_limit) return;
  job.device_time_limit.reset();
  if (job.sequence.steps_handed_out() >= job.sequence.shape().total_steps) return;
  MoveEnd(job, job.sequence.steps_handed_out());
  const int64_t end = job.sequence.shape().total_steps;
  job.stop_note = absl::StrCat("ends at its step ", end, ": it has had ",
                               absl::FormatDuration(absl::Microseconds(job.device_time.count())),
                               " of device time");
  PublishEnd(job);
}

}  // namespace ebb::runtime
