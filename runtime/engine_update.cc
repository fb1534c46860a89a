// Changing a job that has not ended.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {
namespace {

absl::Status CheckUpdate(const JobUpdate& update, const ActiveJob& job) {
  if (update.learning_rate && !(*update.learning_rate >= 0 && *update.learning_rate <= kMostRate)) {
    return absl::InvalidArgumentError(absl::StrCat("learning_rate is ", *update.learning_rate,
                                                   "; give a number from 0 to ", kMostRate));
  }
  if (update.weight && !(*update.weight > 0 && std::isfinite(*update.weight))) {
    return absl::InvalidArgumentError("weight must be a finite number > 0");
  }
  if (update.max_in_flight) EBB_RETURN_IF_ERROR(CheckMaxInFlight(*update.max_in_flight));
  if (update.stop && !update.stop->steps && !update.stop->epochs && !update.stop->samples) {
    return absl::InvalidArgumentError("stop: give steps, epochs or samples");
  }
  if (update.stop && update.stop->epochs && job.prepared->steps.batches_per_epoch == 0) {
    return absl::InvalidArgumentError(job.prepared->feed == nullptr
                                          ? "stop: the job has no data, so no epochs; give steps"
                                          : "stop: a feed has no epochs; give steps or samples");
  }
  if (update.stop && job.snapshotting) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job j-", job.id.value(), " has done its last step and is being saved; its end stays"));
  }
  return absl::OkStatus();
}

// What becomes of a new rate, where that is not simply the rate of all steps from now on.
std::string RateInWords(double rate, const ActiveJob& job) {
  const ScheduleSpec& now = job.schedule;
  if (now.kind == ScheduleKind::kPoints) {
    return absl::StrCat("the learning rate stays at ", rate, "; schedule.points no longer counts");
  }
  if (now.kind == ScheduleKind::kPlateau) {
    const double least = now.plateau.min_lr;
    std::string words =
        absl::StrCat("the learning rate is ", rate, " from its next step, in place of ",
                     now.base_lr, "; schedule.plateau ");
    if (rate <= least)
      return absl::StrCat(words, "lowers none that is not above its min_lr, ", least);
    absl::StrAppend(&words, "multiplies it by ", now.plateau.factor, " from there");
    return least > 0 ? absl::StrCat(words, ", down to its min_lr, ", least) : words;
  }
  ScheduleSpec changed = now;
  changed.base_lr = rate;
  const double next = LearningRate(changed, job.sequence.steps_handed_out(), job.scheduled_steps);
  if (next == rate && now.kind == ScheduleKind::kConstant) return "";
  return absl::StrCat(rate, " is the rate that the schedule goes by; its next step's is ", next);
}

}  // namespace

absl::Status EngineLoop::Update(JobId id, const JobUpdate& update, std::string* rate_note) {
  ActiveJob* job = Find(id);
  if (job == nullptr) {
    EBB_ASSIGN_OR_RETURN(const JobInfo info, board_->Get(id));
    return absl::FailedPreconditionError(
        absl::StrCat("job j-", id.value(), " is ", Name(info.state), " and cannot be changed"));
  }
  EBB_RETURN_IF_ERROR(CheckUpdate(update, *job));
  if (update.learning_rate) {
    if (rate_note != nullptr) *rate_note = RateInWords(*update.learning_rate, *job);
    // Points name rates outright; all other schedules scale with their base rate.
    if (job->schedule.kind == ScheduleKind::kPoints) {
      job->schedule = {.kind = ScheduleKind::kConstant};
    }
    job->schedule.base_lr = *update.learning_rate;
  }
  if (update.weight) job->weight = *update.weight;
  if (update.priority) job->priority = *update.priority;
  if (update.max_in_flight) job->max_in_flight = *update.max_in_flight;
  if (job->region != nullptr) {
    scheduler_->UpdateJob(id, ParamsOf(*job));
    if (update.weight || update.priority || update.max_in_flight) co_run_->Retry(id);
  }
  std::string note;
  bool feed_ends_it = false;
  if (update.stop) {
    const int64_t steps = TotalSteps(*update.stop, job->prepared->steps.batches_per_epoch,
                                     job->prepared->spec.StepRows());
    MoveEnd(*job, steps);
    job->scheduled_steps = job->sequence.shape().total_steps;
    note = EndInWords(steps, job->sequence.shape().total_steps, job->steps_done);
    job->device_time_limit = update.stop->device_time;
    feed_ends_it = HearFeed(*job);
    if (job->draining) return absl::OkStatus();
  }
  Publish(*job, [&](Board::Record& record) {
    if (update.stop && !feed_ends_it) record.info.message = note;
    record.info.weight = job->weight;
    record.info.priority = job->priority;
    record.info.max_in_flight = ParamsOf(*job).max_in_flight;
    record.info.total_steps = job->sequence.shape().total_steps;
    record.info.total_epochs = job->prepared->steps.Epochs(record.info.total_steps);
  });
  Pump(*job);
  return absl::OkStatus();
}

}  // namespace ebb::runtime
