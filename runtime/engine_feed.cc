// Jobs whose batches their clients push: when a step can be staged, what a job waits for, where the
// feed ends.
#include "absl/strings/str_cat.h"
#include "runtime/engine_loop.h"

namespace ebb::runtime {

void EngineLoop::ListenToFeed(const ActiveJob& job) {
  Feed* const feed = job.prepared->feed.get();
  if (feed == nullptr) return;
  feed->SetWanted(job.prepared->steps.total_steps);
  feed->OnChange([this, id = job.id] {
    Post([this, id] {
      if (ActiveJob* job = Find(id)) Pump(*job);
    });
  });
}

bool EngineLoop::HasBatch(const ActiveJob& job, const StepItem& item) const {
  const Feed* const feed = job.prepared->feed.get();
  return feed == nullptr || item.kind == StepKind::kEval || feed->Has(item.step);
}

void EngineLoop::MoveEnd(ActiveJob& job, int64_t total_steps) {
  job.sequence.SetTotalSteps(total_steps);
  if (job.prepared->feed != nullptr) {
    job.prepared->feed->SetWanted(job.sequence.shape().total_steps);
  }
}

bool EngineLoop::HearFeed(ActiveJob& job) {
  if (job.prepared->feed == nullptr) return false;
  const std::optional<int64_t> end = job.prepared->feed->end();
  if (!end || *end >= job.sequence.shape().total_steps) return false;
  if (*end == 0) {
    EndJob(job.id, JobState::kFailed, EndReason::kData, "its feed ended before its first batch");
    return true;
  }
  MoveEnd(job, *end);
  job.stop_note = absl::StrCat("ends after step ", *end, ", the end of its feed");
  PublishEnd(job);
  return true;
}

std::optional<int64_t> EngineLoop::HungersFor(const ActiveJob& job) const {
  const bool between_steps = job.uploaded && !job.draining && !job.paused && job.staged.empty() &&
                             job.enqueuing == nullptr && job.running.empty();
  if (job.prepared->feed == nullptr || !between_steps) return std::nullopt;
  const std::optional<StepItem> item = StepSequence(job.sequence).Next();
  if (!item || HasBatch(job, *item)) return std::nullopt;
  return item->step;
}

void EngineLoop::TellHunger(const ActiveJob& job) {
  const std::optional<int64_t> batch = HungersFor(job);
  if (!batch) return;
  co_run_->Starves(job.id);
  Publish(job, [&](Board::Record& record) { record.hungers_for = batch; });
}

void EngineLoop::WatchFeeds(Micros now) {
  std::vector<std::pair<JobId, int64_t>> late;
  for (const auto& [id, job] : jobs_) {
    const int64_t batch = HungersFor(*job).value_or(-1);
    if (batch != job->hunger.batch) job->hunger = {batch, now};
    if (batch < 0) continue;
    const absl::Duration waited = absl::Microseconds((now - job->hunger.since).count());
    if (waited >= job->prepared->spec.train.feed->timeout) late.emplace_back(id, batch);
  }
  for (const auto& [id, batch] : late) {
    const PreparedJob& prepared = *jobs_.at(id)->prepared;
    const std::string message =
        absl::StrCat("waited for batch ", batch, " from its client for ",
                     absl::FormatDuration(prepared.spec.train.feed->timeout),
                     " (data.train.feed_timeout; ", prepared.feed->LinkInWords(), ")");
    EndJob(id, JobState::kFailed, EndReason::kData, message);
  }
}

}  // namespace ebb::runtime
