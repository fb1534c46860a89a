#include "bench/baselines/paging.h"

#include "base/check.h"

namespace ebb::bench {

PagedSpatial::PagedSpatial(const std::vector<const Workload*>& jobs, Bytes memory, double bandwidth)
    : bandwidth_(bandwidth), free_(memory) {
  for (const Workload* work : jobs) {
    std::vector<Page>& pages = pages_.emplace_back();
    // State begins on the host.
    for (const auto& tensor : work->tensors) {
      pages.push_back({.bytes = tensor.bytes, .exists = tensor.last < 0});
    }
  }
}

void PagedSpatial::Free(int job, int tensor) {
  Page& page = pages_[job][tensor];
  if (page.touched >= 0) {
    on_device_.erase({page.touched, job, tensor});
    free_ += page.bytes;
  }
  page = {.bytes = page.bytes};
}

void PagedSpatial::MakeRoom(Bytes bytes) {
  while (free_ < bytes) {
    EBB_CHECK(!on_device_.empty());  // One tensor alone is larger than the device.
    const auto [touched, job, tensor] = *on_device_.begin();
    on_device_.erase(on_device_.begin());
    Page& page = pages_[job][tensor];
    page.touched = -1;
    free_ += page.bytes;
    if (page.dirty) evicted_ += page.bytes;
    page.dirty = false;
  }
}

void PagedSpatial::Touch(int job, const Workload::Touch& touch) {
  Page& page = pages_[job][touch.tensor];
  if (page.touched >= 0) {
    on_device_.erase({page.touched, job, touch.tensor});
  } else {
    MakeRoom(page.bytes);
    free_ -= page.bytes;
    if (page.exists) fetched_ += page.bytes;
  }
  page.exists = true;
  page.dirty |= touch.writes;
  page.touched = clock_++;
  on_device_.emplace(page.touched, job, touch.tensor);
}

void PagedSpatial::Fault(Simulation& sim, int job) {
  const Bytes fetched = fetched_, evicted = evicted_;
  const Workload& work = sim.work(job);
  const SubModelWork& sub = sim.next(job);
  for (int n = sub.first; n <= sub.last; ++n) {
    for (const Workload::Touch& touch : work.touched[n]) Touch(job, touch);
    for (const Workload::Touch& touch : work.touched[n]) {
      if (work.tensors[touch.tensor].last == n) Free(job, touch.tensor);
    }
  }
  if (sub.last + 1 == static_cast<int>(work.touched.size())) {  // a step leaves nothing but state
    for (size_t t = 0; t < work.tensors.size(); ++t) {
      if (work.tensors[t].last >= 0) Free(job, static_cast<int>(t));
    }
  }
  const auto micros = [&](Bytes bytes) { return static_cast<double>(bytes.count()) / bandwidth_; };
  if (evicted_ > evicted) {
    sim.Transfer(job, device::BusDirection::kToHost, micros(evicted_ - evicted));
  }
  if (fetched_ > fetched) {
    sim.Transfer(job, device::BusDirection::kToDevice, micros(fetched_ - fetched));
  }
}

void PagedSpatial::Decide(Simulation& sim) {
  for (bool launched = true; launched;) {
    launched = false;
    for (int j = 0; j < sim.jobs(); ++j) {
      if (sim.in_flight(j) >= Simulation::kAhead) continue;
      Fault(sim, j);
      sim.Launch(j);
      launched = true;
    }
  }
}

}  // namespace ebb::bench
