// A job's life on the engine's thread: staged, stepped, measured, snapshotted, ended, retired.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/status.h"
#include "runtime/engine_loop.h"
#include "runtime/needs.h"
#include "runtime/predictions.h"
#include "runtime/resident.h"

namespace ebb::runtime {

ActiveJob* EngineLoop::Find(JobId job) {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second.get();
}

const ActiveJob* EngineLoop::Find(JobId job) const {
  const auto it = jobs_.find(job);
  return it == jobs_.end() ? nullptr : it->second.get();
}

void EngineLoop::Publish(const ActiveJob& job, const std::function<void(Board::Record&)>& change) {
  board_->Change(job.id, change);
}

scheduler::JobParams EngineLoop::ParamsOf(const ActiveJob& job) const {
  const int own = job.max_in_flight;
  return {.weight = job.weight,
          .priority = job.priority,
          .max_in_flight = own > 0 ? own : options_.max_in_flight};
}

JobId EngineLoop::Submit(std::unique_ptr<PreparedJob> prepared) {
  auto job = std::make_unique<ActiveJob>(std::move(prepared));
  const JobId id(next_job_++);
  job->id = id;
  const JobSpec& spec = job->prepared->spec;
  const AdmissionJob needs = NeedsOf(id, *job->prepared, device_->spec());
  const auto alone = CheapestLevels({.pool = pool_->budget(), .granule = pool_->granule()},
                                    std::vector<const AdmissionJob*>{&needs});
  if (alone) job->prepared->level = static_cast<size_t>(alone->front());
  job->weight = spec.weight;
  job->priority = spec.priority;
  job->max_in_flight = spec.max_in_flight;

  JobInfo info;
  info.id = id;
  info.name = spec.name;
  info.state = JobState::kQueued;
  info.warnings = job->prepared->warnings;
  info.total_steps = job->prepared->steps.total_steps;
  info.total_epochs = job->prepared->steps.Epochs(info.total_steps);
  info.resident = job->ResidentBytes();
  info.staging = job->StagingBytes();
  info.step_peak = job->prepared->Peak();
  info.batch_size = spec.batch_size;
  info.priority = spec.priority;
  info.weight = spec.weight;
  info.max_in_flight = ParamsOf(*job).max_in_flight;
  info.labels = spec.labels;
  info.submitted = absl::Now();
  info.started = absl::InfinitePast();
  info.finished = absl::InfinitePast();
  board_->Add(std::move(info), job->prepared->feed);
  ListenToFeed(*job);

  jobs_.emplace(id, std::move(job));
  waiting_.push_back(id);
  recut_wanted_ = true;
  return id;
}

ActiveJob* EngineLoop::Settle(JobId id, int ActiveJob::*counter) {
  if (ActiveJob* job = Find(id)) {
    --(job->*counter);
    return job;
  }
  for (const auto& ended : ended_) {
    if (ended->id == id) --(*ended.*counter);
  }
  return nullptr;
}

void EngineLoop::AfterCopies(ActiveJob& job, std::function<void(ActiveJob&)> then) {
  ++job.outstanding;
  const auto done = [this, id = job.id, then = std::move(then)](const absl::Status& status) {
    ActiveJob* job = Settle(id, &ActiveJob::outstanding);
    if (job == nullptr) return;
    if (!status.ok()) {
      EndJob(id, JobState::kFailed, EndReason::kDevice, std::string(status.message()));
      return;
    }
    then(*job);
  };
  aux_ops_.push_back({device_->Record(aux_stream_), done});
}

// Enqueues a copy of every segment of the image, but of what is there already.
void EngineLoop::CopyImage(ActiveJob& job, ImageWay way, char* image, Bytes until) {
  for (const Placement::Segment& segment : job.prepared->plan().placement.segments()) {
    const Bytes bytes = std::min(segment.end, until) - segment.begin;
    char* const there = job.AtImage(segment.begin);
    char* const here = image + segment.begin.count();
    if (bytes <= Bytes(0) || there == here) continue;
    const bool up = way == ImageWay::kUp;
    device_->Copy(aux_stream_, up ? there : here, up ? here : there, bytes);
  }
}

// The job's region has just been made, for the first time or for another level: its values go in
// before its next step.
void EngineLoop::Upload(ActiveJob& job) {
  job.uploaded = false;
  std::shared_ptr<std::vector<char>> first;
  const DeviceSpec& spec = device_->spec();
  char* image = nullptr;
  if (job.image_is_fresh || !spec.computes || !spec.host_memory) {
    image = job.prepared->host_image->base();
  } else {
    first = std::make_shared<std::vector<char>>(job.prepared->resident.bytes.count());
    image = first->data();
  }
  if (spec.computes && !job.image_is_fresh) MakeInitialImage(*job.prepared, image);
  job.prepared->weights.clear();  // the image has them
  CopyImage(job, ImageWay::kUp, image, job.prepared->resident.bytes);
  AfterCopies(job, [this, first](ActiveJob& job) {
    job.uploaded = true;
    Pump(job);
  });
}

void EngineLoop::MakeImage(ActiveJob& job) {
  CopyImage(job, ImageWay::kDown, job.prepared->host_image->base(), job.prepared->resident.bytes);
  job.image_on_its_way = true;
  AfterCopies(job, [](ActiveJob& job) {
    job.image_on_its_way = false;
    job.image_is_fresh = true;
  });
}

void EngineLoop::StageNext(ActiveJob& job, int slot) {
  std::optional<StepItem> item = job.sequence.Next();
  EBB_CHECK(item.has_value());
  auto run = std::make_unique<StepRun>();
  run->item = *item;
  run->slot = slot;
  job.slot_busy[slot] = true;
  if (!device_->spec().computes) {  // there is nothing to load
    run->staged = true;
    run->valid = job.prepared->spec.batch_size;
    job.staged.push_back(std::move(run));
    return;
  }
  ++job.fills_pending;

  const int program = static_cast<int>(item->kind);
  const auto& offsets = job.prepared->slot_offsets[program];
  StageRequest request{.source = &job.prepared->sources[program],
                       .cache = job.caches[program],
                       .epoch = item->kind == StepKind::kTrain ? item->epoch : 0,
                       .batch = item->batch};
  if (item->kind == StepKind::kTrain && job.prepared->feed != nullptr) {
    request.fed = job.prepared->feed->Take(item->step);
    request.source = request.fed.get();
    request.epoch = request.batch = 0;  // it is all of its source
  }
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    request.out.push_back(job.Staged(slot, offsets[i]));
  }
  request.valid = reinterpret_cast<int64_t*>(job.Staged(slot, offsets.back()));
  request.done = [this, id = job.id, run = run.get()](absl::StatusOr<int64_t> valid) {
    Post([this, id, run, valid = std::move(valid)] {
      ActiveJob* job = Settle(id, &ActiveJob::fills_pending);
      if (job == nullptr) return;
      if (!valid.ok()) {
        EndJob(id, JobState::kFailed, EndReason::kData, std::string(valid.status().message()));
        return;
      }
      run->staged = true;
      run->valid = *valid;
      Pump(*job);
    });
  };
  job.staged.push_back(std::move(run));
  Stager& stager = request.source->image ? *image_stager_ : *stager_;
  stager.Stage(std::move(request));
}

void EngineLoop::Pump(ActiveJob& job) {
  if (!job.uploaded || job.draining) return;
  HearFeed(job);
  if (job.draining) return;
  // A copy decides whether there is a next step, so that the sequence stays a pure generator.
  const auto next = [&] { return StepSequence(job.sequence).Next(); };
  for (int slot = 0; slot < kSlots; ++slot) {
    if (job.slot_busy[slot]) continue;
    const std::optional<StepItem> item = next();
    if (!item || !HasBatch(job, *item)) break;
    StageNext(job, slot);
  }
  FetchAhead(job);
  if (job.paused || job.ready || job.enqueuing != nullptr) return;
  if (!job.staged.empty()) {
    StepRun& first = *job.staged.front();
    if (!first.staged) return;
    if (first.item.kind == StepKind::kTrain) {
      first.item.lr = LearningRate(job.schedule, first.item.step, job.scheduled_steps);
    }
    job.ready = true;
    scheduler_->Ready(job.id, static_cast<int>(first.item.kind));
    return;
  }
  if (next()) return TellHunger(job);  // its client has not sent the batch yet
  if (job.running.empty() && job.outstanding == 0 && !job.snapshotting) BeginSnapshot(job);
}

std::vector<MetricPoint> EngineLoop::Measure(ActiveJob& job, const StepRun& run,
                                             double* loss) const {
  std::vector<MetricPoint> points;
  if (!device_->spec().computes) return points;
  const bool trains = run.item.kind == StepKind::kTrain;
  const StepProgram& step = *job.prepared->programs()[static_cast<int>(run.item.kind)];
  const auto& offsets = job.prepared->resident.metric_offsets[static_cast<int>(run.item.kind)];
  if (job.prepared->spec.predict) {
    KeepPredictions(run.metrics->bytes(), offsets, run.item.batch, run.valid, job.prepared.get());
    return points;
  }
  const int64_t steps_done = run.item.step + (trains ? 1 : 0);
  const absl::Time now = absl::Now();
  const auto add = [&](absl::string_view prefix, const std::map<std::string, double>& values) {
    for (const auto& [name, value] : values) {
      points.push_back({absl::StrCat(prefix, "/", name), steps_done,
                        job.prepared->steps.Epochs(steps_done), value, now});
    }
  };
  const auto add_with_loss = [&](absl::string_view prefix,
                                 const std::map<std::string, double>& values) {
    if (const auto it = values.find("loss"); it != values.end()) *loss = it->second;
    add(prefix, values);
  };
  if (trains) {
    job.step_sums.Add(step, run.metrics->bytes(), offsets, run.valid);
    add_with_loss("train", job.step_sums.Take());
    job.epoch_sums.Add(step, run.metrics->bytes(), offsets, run.valid);
    if (run.item.last_of_epoch) add("epoch", job.epoch_sums.Take());
  } else {
    job.eval_sums.Add(step, run.metrics->bytes(), offsets, run.valid);
    if (run.item.last_of_eval) add_with_loss("val", job.eval_sums.Take());
  }
  return points;
}

void EngineLoop::FinishStep(ActiveJob& job) {
  EBB_CHECK(!job.running.empty());
  const std::unique_ptr<StepRun> run = std::move(job.running.front());
  job.running.pop_front();
  int64_t steps_done = run->item.step;
  if (run->item.kind == StepKind::kTrain) {
    job.steps_done = ++steps_done;
    job.rate.Step(job.last_step_end);
    if (job.prepared->feed != nullptr) job.prepared->feed->SetSteps(steps_done);
  }
  double loss = 0;
  std::vector<MetricPoint> points = Measure(job, *run, &loss);
  job.prepared->metric_rooms.push_back(std::move(run->metrics));
  std::map<std::string, double> evaluated;
  if (run->item.last_of_eval) {
    for (const MetricPoint& point : points) evaluated[point.name] = point.value;
  }
  Publish(job, [&](Board::Record& record) {
    record.info.step = steps_done;
    record.info.epoch = job.prepared->steps.Epochs(steps_done);
    record.info.device_start = *job.first_start;
    record.info.elapsed = job.last_step_end - *job.first_start;
    if (run->item.kind == StepKind::kTrain) record.info.learning_rate = run->item.lr;
    for (MetricPoint& point : points) {
      record.info.last[point.name] = point.value;
      record.metrics.Add(std::move(point));
    }
  });
  if (!std::isfinite(loss)) {
    EndJob(job.id, JobState::kFailed, EndReason::kNan,
           absl::StrCat(
               run->item.kind == StepKind::kTrain ? "the training loss" : "the validation loss",
               " is not finite (", loss, ") at step ", steps_done,
               "; lower the learning rate or check the data",
               std::isnan(loss) ? " (does any label count? see ignore_index)" : ""));
    return;
  }
  if (run->item.kind == StepKind::kTrain) CheckDeviceTime(job);
  if (run->item.last_of_eval && job.prepared->steps.evaluations_decide) {
    ActOnEvaluation(job, evaluated);
  }
}

void EngineLoop::EndJob(JobId id, JobState state, EndReason reason, const std::string& message) {
  const auto it = jobs_.find(id);
  if (it == jobs_.end()) return;
  std::unique_ptr<ActiveJob> job = std::move(it->second);
  jobs_.erase(it);
  job->draining = true;
  if (job->region != nullptr) {
    scheduler_->RemoveJob(id);
    co_run_->Remove(id);
  } else {
    std::erase(waiting_, id);
  }
  Log(LogLevel::kInfo, "job j-%d (%s) %s%s%s", id.value(), job->prepared->spec.name, Name(state),
      message.empty() ? "" : ": ", message);
  const std::shared_ptr<Feed> feed = job->prepared->feed;
  ended_.push_back(std::move(job));
  recut_wanted_ = true;
  board_->Change(id, [&](Board::Record& record) {
    record.info.state = state;
    record.info.reason = reason;
    // A job that has come to its end keeps the note of an update that moved it there.
    if (state != JobState::kSucceeded) record.info.message = message;
    record.info.finished = absl::Now();
    record.info.why.clear();
    record.info.held = Bytes(0);
    record.info.share = 0;
    record.info.steps_per_second = 0;
    record.info.eta.reset();
    record.info.lane = LaneId();
  });
  if (feed != nullptr) feed->Finish(state, message);
}

void EngineLoop::Retire() {
  std::erase_if(ended_, [](const std::unique_ptr<ActiveJob>& job) {
    return job->outstanding == 0 && job->fills_pending == 0;
  });
}

absl::Status EngineLoop::Cancel(JobId id) {
  if (Find(id) == nullptr) return board_->Get(id).status();
  EndJob(id, JobState::kCancelled, EndReason::kCancelled, "cancelled by request");
  return absl::OkStatus();
}

absl::Status EngineLoop::Pause(JobId id) {
  ActiveJob* job = Find(id);
  if (job == nullptr) {
    EBB_ASSIGN_OR_RETURN(const JobInfo info, board_->Get(id));
    return absl::FailedPreconditionError(
        absl::StrCat("job j-", id.value(), " is ", Name(info.state), " and cannot be paused"));
  }
  if (job->paused) return absl::OkStatus();
  job->paused = true;
  if (job->ready && scheduler_->Unready(id)) job->ready = false;
  Publish(*job, [](Board::Record& record) { record.info.state = JobState::kPaused; });
  return absl::OkStatus();
}

absl::Status EngineLoop::Resume(JobId id) {
  ActiveJob* job = Find(id);
  if (job == nullptr) {
    EBB_ASSIGN_OR_RETURN(const JobInfo info, board_->Get(id));
    return absl::FailedPreconditionError(
        absl::StrCat("job j-", id.value(), " is ", Name(info.state), " and cannot be resumed"));
  }
  if (!job->paused) return absl::OkStatus();
  job->paused = false;
  Publish(*job, [&](Board::Record& record) {
    record.info.state = job->region != nullptr ? JobState::kRunning : JobState::kQueued;
  });
  Pump(*job);
  return absl::OkStatus();
}

}  // namespace ebb::runtime
