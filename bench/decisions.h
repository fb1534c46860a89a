// A scheduler under load, to measure what one decision costs. Thread rule: one owner thread.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/scheduler.h"

namespace ebb::bench {

// Jobs of sixteen sub-models in up to eight lanes whose followers often have to wait.
class DecisionLoad {
 public:
  explicit DecisionLoad(int64_t jobs);
  absl::Status status() const { return status_; }  // not ok: a job did not fit

  // One decision, with its share of Ready() and Finished().
  void Decide();

 private:
  scheduler::Scheduler scheduler_;
  std::deque<scheduler::LaunchSeq> outstanding_;
  absl::Status status_;
};

// Microseconds of the thread's CPU time a decision, by number of jobs: the median of `runs` runs,
// each of a new load that has been warmed up.
absl::StatusOr<std::map<int64_t, double>> MeasureDecisions(const std::vector<int64_t>& jobs,
                                                           int runs);

}  // namespace ebb::bench
