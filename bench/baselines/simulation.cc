#include "bench/baselines/simulation.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace ebb::bench {

void SharingPolicy::BreakDeadlock(Simulation&) { EBB_CHECK(false); }

Simulation::Simulation(const device::SimProfile& profile, device::OverlapModel overlap,
                       std::vector<const Workload*> jobs, Bytes pool)
    : timeline_(profile, overlap), pool_(pool), memory_(pool), launches_(jobs.size()) {
  for (const Workload* work : jobs) {
    const auto index = static_cast<int32_t>(jobs_.size());
    Job& job = jobs_.emplace_back();
    job.work = work;
    job.kernels = device::StreamId(2 * index);
    job.copies = device::StreamId(2 * index + 1);
    timeline_.AddStream(job.kernels);
    timeline_.AddStream(job.copies);
    memory_ -= work->resident;
    CopyBatch(job);
  }
}

void Simulation::CopyBatch(Job& job) {
  timeline_.Copy(job.copies, device::BusDirection::kToDevice, job.work->batch_micros);
  job.batch = timeline_.Record(job.copies);
}

Bytes Simulation::claimed(int job) const {
  Bytes claimed = jobs_[job].held;
  for (const Flight& flight : jobs_[job].in_flight) {
    claimed = std::max(claimed, work(job).sub_models[flight.sub_model].needed);
  }
  return claimed;
}

void Simulation::Launch(int index, absl::Span<const Event> after) {
  Job& job = jobs_[index];
  const SubModelWork& sub = next(index);
  for (const Event& event : after) timeline_.Wait(job.kernels, event);
  const bool first = job.next == 0;
  if (first) timeline_.Wait(job.kernels, job.batch);
  timeline_.Launch(
      job.kernels,
      absl::MakeConstSpan(job.work->kernels).subspan(sub.first, sub.last + 1 - sub.first),
      first ? device::StepStart::kYes : device::StepStart::kNo);
  job.newest = timeline_.Record(job.kernels);
  job.in_flight.push_back({job.newest, job.next});
  job.held = sub.held;
  job.service += sub.micros;
  if (first) CopyBatch(job);  // of the step after this one, beside it
  job.next = (job.next + 1) % static_cast<int>(job.work->sub_models.size());
  ++launched_;
}

void Simulation::Transfer(int job, device::BusDirection direction, double micros) {
  timeline_.Copy(jobs_[job].kernels, direction, micros);
}

// A kernel that uses nothing; the record keeps it out of the next launch's times.
void Simulation::Pause(int job, double micros) {
  timeline_.Kernel(jobs_[job].kernels, {.micros = micros});
  timeline_.Record(jobs_[job].kernels);
}

void Simulation::DropStep(int index) {
  Job& job = jobs_[index];
  EBB_CHECK(job.in_flight.empty());
  std::vector<runtime::LaunchReport>& launches = launches_[index];
  while (!launches.empty() && !launches.back().last) launches.pop_back();
  if (job.next > 0) ++drops_;
  job.next = 0;
  job.held = Bytes(0);
}

std::vector<int> Simulation::LeastServedFirst() const {
  std::vector<int> order(jobs_.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return service(a) < service(b); });
  return order;
}

bool Simulation::Harvest() {
  bool any = false;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    Job& job = jobs_[j];
    while (!job.in_flight.empty() && job.in_flight.front().event->complete) {
      const auto [event, sub_model] = job.in_flight.front();
      const SubModelWork& sub = job.work->sub_models[sub_model];
      launches_[j].push_back(
          {.job = JobId(static_cast<int64_t>(j)),
           .sub_model = sub_model,
           .last = sub_model + 1 == static_cast<int>(job.work->sub_models.size()),
           .start = event->start,
           .end = event->end,
           .extent = sub.needed,
           .held_after = sub.held,
           .region = job.work->resident});
      job.in_flight.pop_front();
      any = true;
    }
  }
  return any;
}

void Simulation::Run(SharingPolicy& policy, double horizon) {
  policy.Decide(*this);
  while (timeline_.now() < horizon) {
    const bool moved = timeline_.Advance();
    if (Harvest()) {
      policy.Decide(*this);
      continue;
    }
    if (moved) continue;
    // Nothing is in motion, so nothing waits for what never comes.
    for (const Job& job : jobs_) EBB_CHECK(job.in_flight.empty());
    const int64_t before = launched_;
    policy.Decide(*this);
    while (launched_ == before) {
      policy.BreakDeadlock(*this);
      policy.Decide(*this);
    }
  }
}

}  // namespace ebb::bench
