// What can be seen of the jobs from outside of the engine's thread: infos, metric points, results.
// Thread-safe; the engine's thread writes, everybody reads.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "runtime/engine.h"
#include "runtime/job.h"
#include "runtime/metric_log.h"

namespace ebb::runtime {

class Board {
 public:
  struct Record {
    JobInfo info;
    MetricLog metrics;
    std::shared_ptr<const JobResult> result;
    std::shared_ptr<Feed> feed;  // null: the job is not fed by its client
    // The batch of its feed without which it cannot go on. Why it waits is told by how that is now.
    std::optional<int64_t> hungers_for;
  };

  void Add(JobInfo info, std::shared_ptr<Feed> feed);
  void Remove(JobId job);
  // Changes a record under the lock and tells those who wait. No-op for an unknown job.
  void Change(JobId job, const std::function<void(Record&)>& change);

  absl::StatusOr<JobInfo> Get(JobId job) const;
  std::vector<JobInfo> List() const;
  absl::StatusOr<std::vector<MetricPoint>> Metrics(JobId job, size_t from) const;
  absl::StatusOr<std::shared_ptr<Feed>> FeedOf(JobId job) const;
  absl::StatusOr<std::shared_ptr<const JobResult>> Result(JobId job) const;
  absl::StatusOr<JobInfo> WaitForChange(JobId job, uint64_t seen, absl::Time deadline) const;
  Bytes ResultBytes() const;

 private:
  absl::StatusOr<const Record*> Find(JobId job) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static JobInfo InfoOf(const Record& record);  // as of now

  mutable Mutex mu_;
  mutable CondVar changed_;
  std::map<JobId, Record> records_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::runtime
