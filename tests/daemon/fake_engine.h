// An engine without a device: jobs change when the test says so.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "runtime/engine.h"

namespace ebb::daemon {

class FakeEngine final : public runtime::Engine {
 public:
  // What the test does.
  void Step(JobId id, int64_t step, double loss) {
    MutexLock lock(&mu_);
    Entry& entry = jobs_.at(id.value());
    entry.info.state = runtime::JobState::kRunning;
    entry.info.step = step;
    entry.info.last["train/loss"] = loss;
    entry.points.push_back({"train/loss", step, 0, loss, absl::UnixEpoch() + absl::Seconds(step)});
    Touch(&entry);
  }
  void End(JobId id, runtime::JobState state, runtime::EndReason reason = runtime::EndReason::kNone,
           const std::string& message = "") {
    MutexLock lock(&mu_);
    Entry& entry = jobs_.at(id.value());
    entry.info.state = state;
    entry.info.reason = reason;
    entry.info.message = message;
    Touch(&entry);
  }
  // The newest submitted spec.
  runtime::JobSpec last_spec() const {
    MutexLock lock(&mu_);
    return last_spec_;
  }
  int submits() const {
    MutexLock lock(&mu_);
    return submits_;
  }
  int waiters() const {
    MutexLock lock(&mu_);
    return waiters_;
  }
  void FailSubmits(absl::Status status) {
    MutexLock lock(&mu_);
    submit_status_ = std::move(status);
  }
  std::function<void()> before_submit;                         // on the thread of the call
  std::function<void(const runtime::JobSpec& spec)> planning;  // so too
  std::string rate_note;                                       // of updates of the learning rate
  runtime::MemoryReport memory;
  std::shared_ptr<const runtime::JobResult> result;
  std::shared_ptr<runtime::Feed> feed;  // of every job

  // The interface.
  absl::StatusOr<JobId> Submit(runtime::JobSpec spec) override {
    if (before_submit) before_submit();
    if (planning) planning(spec);
    MutexLock lock(&mu_);
    ++submits_;
    if (!submit_status_.ok()) return submit_status_;
    last_spec_ = spec;
    const JobId id(next_++);
    Entry& entry = jobs_[id.value()];
    entry.info.id = id;
    entry.info.name = spec.name;
    entry.info.labels = spec.labels;
    entry.info.batch_size = spec.batch_size;
    entry.info.max_in_flight = spec.max_in_flight;
    entry.info.state = runtime::JobState::kQueued;
    entry.info.total_steps = spec.stop.steps.value_or(0);
    Touch(&entry);
    return id;
  }
  absl::StatusOr<runtime::EstimateReport> Estimate(runtime::JobSpec spec) const override {
    MutexLock lock(&mu_);
    if (!submit_status_.ok()) return submit_status_;
    estimated_ = std::move(spec);
    runtime::EstimateReport report;
    report.device.name = "fake";
    report.verdict = {
        .kind = runtime::Verdict::Kind::kAfter, .after = JobId(3), .wait = Micros(1'500'000)};
    report.text = "after j-3";
    report.batch_size = estimated_.batch_size;
    report.largest_now = 12;
    return report;
  }
  runtime::JobSpec estimated() const {
    MutexLock lock(&mu_);
    return estimated_;
  }
  absl::StatusOr<runtime::JobInfo> Get(JobId id) const override {
    MutexLock lock(&mu_);
    const Entry* entry = Find(id);
    if (entry == nullptr) return Missing(id);
    return entry->info;
  }
  std::vector<runtime::JobInfo> List() const override {
    MutexLock lock(&mu_);
    std::vector<runtime::JobInfo> all;
    for (const auto& [id, entry] : jobs_) all.push_back(entry.info);
    return all;
  }
  absl::StatusOr<std::vector<runtime::MetricPoint>> Metrics(JobId id, size_t from) const override {
    MutexLock lock(&mu_);
    const Entry* entry = Find(id);
    if (entry == nullptr) return Missing(id);
    const auto& points = entry->points;
    if (from >= points.size()) return std::vector<runtime::MetricPoint>();
    return std::vector<runtime::MetricPoint>(points.begin() + static_cast<ptrdiff_t>(from),
                                             points.end());
  }
  absl::StatusOr<runtime::JobInfo> WaitForChange(JobId id, uint64_t seen,
                                                 absl::Time deadline) const override {
    MutexLock lock(&mu_);
    ++waiters_;
    while (Find(id) != nullptr && Find(id)->info.version == seen && absl::Now() < deadline) {
      changed_.WaitWithTimeout(&mu_, deadline - absl::Now());
    }
    --waiters_;
    const Entry* entry = Find(id);
    if (entry == nullptr) return Missing(id);
    return entry->info;
  }
  absl::Status Update(JobId id, const runtime::JobUpdate& update, std::string* note) override {
    if (update.learning_rate && note != nullptr) *note = rate_note;
    MutexLock lock(&mu_);
    Entry& entry = jobs_.at(id.value());
    if (update.learning_rate) entry.info.learning_rate = *update.learning_rate;
    if (update.weight) entry.info.weight = *update.weight;
    if (update.priority) entry.info.priority = *update.priority;
    if (update.max_in_flight) entry.info.max_in_flight = *update.max_in_flight;
    if (update.stop) entry.info.total_steps = update.stop->steps.value_or(0);
    Touch(&entry);
    return absl::OkStatus();
  }
  absl::Status Cancel(JobId id) override {
    End(id, runtime::JobState::kCancelled, runtime::EndReason::kCancelled);
    return absl::OkStatus();
  }
  absl::Status Pause(JobId id) override {
    return End(id, runtime::JobState::kPaused), absl::OkStatus();
  }
  absl::Status Resume(JobId id) override {
    return End(id, runtime::JobState::kQueued), absl::OkStatus();
  }
  absl::Status Forget(JobId id) override {
    MutexLock lock(&mu_);
    if (!runtime::IsFinal(jobs_.at(id.value()).info.state)) {
      return absl::FailedPreconditionError("the job has not ended; cancel it first");
    }
    jobs_.erase(id.value());
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const runtime::JobResult>> Result(JobId id) const override {
    MutexLock lock(&mu_);
    if (!runtime::IsFinal(Find(id)->info.state))
      return absl::FailedPreconditionError("the job runs");
    return result;
  }
  absl::StatusOr<std::shared_ptr<runtime::Feed>> FeedOf(JobId id) const override {
    MutexLock lock(&mu_);
    if (Find(id) == nullptr) return Missing(id);
    if (feed != nullptr) return feed;
    return absl::FailedPreconditionError(absl::StrCat("job ", id.value(), " takes no batches"));
  }
  runtime::MemoryReport Memory() const override { return memory; }
  runtime::OverlapReport Overlap() const override {
    return {7, 5, 3, Micros(100), Micros(90), Micros(40)};
  }
  absl::StatusOr<runtime::ExplainReport> Explain(JobId) const override {
    runtime::ExplainReport report;
    report.solo_step = Micros(1500);
    report.pairs = {{.other = JobId(3),
                     .state = runtime::CoRunPair::State::kTurns,
                     .measured = true,
                     .own = 0.5,
                     .others = 0.44,
                     .retry_in = 64,
                     .tries = 1,
                     .known = 40,
                     .apart = 6}};
    report.waiting = 0.25;
    report.graph = "bad \xff name";
    report.sub_models.push_back({0, 4, "forward", Bytes(10), Bytes(5), Bytes(5)});
    return report;
  }
  runtime::DeviceReport Describe() const override {
    runtime::DeviceReport report;
    report.spec.kind = "fake";
    report.pool = MiB(1);
    return report;
  }

 private:
  struct Entry {
    runtime::JobInfo info;
    std::vector<runtime::MetricPoint> points;
  };
  static absl::Status Missing(JobId id) {
    return absl::NotFoundError(absl::StrCat("no job ", id.value()));
  }
  const Entry* Find(JobId id) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto it = jobs_.find(id.value());
    return it == jobs_.end() ? nullptr : &it->second;
  }
  void Touch(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    entry->info.version++;
    changed_.SignalAll();
  }

  mutable Mutex mu_;
  mutable CondVar changed_;
  std::map<int64_t, Entry> jobs_ ABSL_GUARDED_BY(mu_);
  int64_t next_ ABSL_GUARDED_BY(mu_) = 1;
  int submits_ ABSL_GUARDED_BY(mu_) = 0;
  mutable int waiters_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status submit_status_ ABSL_GUARDED_BY(mu_);
  runtime::JobSpec last_spec_ ABSL_GUARDED_BY(mu_);
  mutable runtime::JobSpec estimated_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::daemon
