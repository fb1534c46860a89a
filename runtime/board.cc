#include "runtime/board.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"

namespace ebb::runtime {

absl::StatusOr<const Board::Record*> Board::Find(JobId job) const {
  const auto it = records_.find(job);
  if (it == records_.end()) {
    return absl::NotFoundError(absl::StrCat("there is no job j-", job.value()));
  }
  return &it->second;
}

void Board::Add(JobInfo info, std::shared_ptr<Feed> feed) {
  MutexLock lock(&mu_);
  Record& record = records_[info.id];
  record.info = std::move(info);
  record.feed = std::move(feed);
}

void Board::Remove(JobId job) {
  MutexLock lock(&mu_);
  records_.erase(job);
  changed_.SignalAll();
}

void Board::Change(JobId job, const std::function<void(Record&)>& change) {
  MutexLock lock(&mu_);
  const auto it = records_.find(job);
  if (it == records_.end()) return;
  change(it->second);
  ++it->second.info.version;
  changed_.SignalAll();
}

JobInfo Board::InfoOf(const Record& record) {
  JobInfo info = record.info;
  if (info.state != JobState::kRunning || !record.hungers_for) return info;
  std::string why = record.feed->WaitInWords(*record.hungers_for);
  if (why.empty()) return info;
  info.why = std::move(why);
  if (!record.feed->connected()) info.eta.reset();
  return info;
}

absl::StatusOr<JobInfo> Board::Get(JobId job) const {
  MutexLock lock(&mu_);
  EBB_ASSIGN_OR_RETURN(const Record* record, Find(job));
  return InfoOf(*record);
}

std::vector<JobInfo> Board::List() const {
  MutexLock lock(&mu_);
  std::vector<JobInfo> infos;
  for (const auto& [id, record] : records_) infos.push_back(InfoOf(record));
  return infos;
}

absl::StatusOr<std::vector<MetricPoint>> Board::Metrics(JobId job, size_t from) const {
  MutexLock lock(&mu_);
  EBB_ASSIGN_OR_RETURN(const Record* record, Find(job));
  return record->metrics.From(from);
}

absl::StatusOr<std::shared_ptr<Feed>> Board::FeedOf(JobId job) const {
  MutexLock lock(&mu_);
  EBB_ASSIGN_OR_RETURN(const Record* record, Find(job));
  if (record->feed != nullptr) return record->feed;
  return absl::FailedPreconditionError(
      absl::StrCat("job j-", job.value(),
                   " takes no batches: only jobs with data.train: {feed: client, ...} "
                   "do, on a device that computes"));
}

absl::StatusOr<std::shared_ptr<const JobResult>> Board::Result(JobId job) const {
  MutexLock lock(&mu_);
  EBB_ASSIGN_OR_RETURN(const Record* record, Find(job));
  if (record->result == nullptr && record->info.state == JobState::kSucceeded) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job j-", job.value(),
        " ran on a simulated device, which computes no values: there are no weights to fetch; "
        "train it on a real one, such as \"cpu\""));
  }
  if (record->result == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("job j-", job.value(), " is ", Name(record->info.state),
                     "; only a job that has succeeded has a result"));
  }
  return record->result;
}

absl::StatusOr<JobInfo> Board::WaitForChange(JobId job, uint64_t seen, absl::Time deadline) const {
  MutexLock lock(&mu_);
  for (;;) {
    EBB_ASSIGN_OR_RETURN(const Record* record, Find(job));
    const absl::Duration left = deadline - absl::Now();
    if (record->info.version != seen || left <= absl::ZeroDuration()) return InfoOf(*record);
    changed_.WaitWithTimeout(&mu_, left);
  }
}

Bytes Board::ResultBytes() const {
  MutexLock lock(&mu_);
  int64_t bytes = 0;
  for (const auto& [id, record] : records_) {
    for (const JobResult* result = record.result.get(); result != nullptr;
         result = result->last.get()) {
      for (const auto* map : {&result->weights, &result->slots, &result->predictions}) {
        for (const auto& [name, tensor] : *map) bytes += static_cast<int64_t>(tensor.data.size());
      }
    }
  }
  return Bytes(bytes);
}

}  // namespace ebb::runtime
