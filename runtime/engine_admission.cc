// What waits, and for what, in words.
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/engine_loop.h"
#include "runtime/needs.h"

namespace ebb::runtime {

AdmissionState EngineLoop::Admission() const {
  AdmissionState state{.pool = pool_->budget(), .granule = pool_->granule()};
  const Micros now = device_->Now();
  const auto add = [&](const ActiveJob& job, std::vector<AdmissionJob>* to) {
    AdmissionJob& out = to->emplace_back(NeedsOf(job.id, *job.prepared, device_->spec()));
    out.paused = job.paused;
    // As fast as it is now; at first, as it would be alone.
    const double steps_per_second = job.rate.PerSecond(now);
    const auto steps = static_cast<double>(job.sequence.shape().total_steps - job.steps_done);
    if (steps_per_second > 0) {
      out.left = Micros(static_cast<int64_t>(steps / steps_per_second * 1e6));
    } else if (job.prepared->predicted_step) {
      const double micros = static_cast<double>(job.prepared->predicted_step->count());
      out.left = Micros(static_cast<int64_t>(steps * micros));
    }
  };
  for (const auto& [id, job] : jobs_) {
    if (job->region != nullptr) add(*job, &state.running);
  }
  for (const JobId id : waiting_) add(*jobs_.at(id), &state.waiting);
  if (options_.host_budget) {
    state.host = options_.host_budget->limit();
    state.host_taken = options_.host_budget->taken();
    for (const auto& [id, job] : jobs_) state.host_taken -= job->prepared->host_share->taken();
  }
  return state;
}

std::map<JobId, EngineLoop::Wait> EngineLoop::Waits() const {
  std::map<JobId, Wait> waits;
  if (waiting_.empty()) return waits;
  const AdmissionState state = Admission();
  const std::vector<Verdict> verdicts = Forecast(state);
  std::optional<absl::Time> now;
  if (device_->spec().profile.empty()) now = absl::Now();
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    std::string text = InWords(verdict, now);
    if (verdict.kind == Verdict::Kind::kFitsNow) {
      text += ": it starts when the steps in flight have ended";
    } else {
      absl::StrAppend(&text, ": it ", InWords(verdict.ledger),
                      InWords(absl::MakeConstSpan(state.waiting).first(i)));
    }
    waits[state.waiting[i].id] = {std::move(text), verdict.wait};
  }
  return waits;
}

}  // namespace ebb::runtime
