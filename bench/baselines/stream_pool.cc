#include "bench/baselines/stream_pool.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "bench/baselines/policies.h"

namespace ebb::bench {
namespace {

int Kernels(const Workload& work, const SubModelWork& sub) {
  return static_cast<int>(
      std::count_if(work.kernels.begin() + sub.first, work.kernels.begin() + sub.last + 1,
                    [](const device::KernelCost& kernel) { return kernel.micros > 0; }));
}

}  // namespace

StreamPool::StreamPool(int jobs, int queue, double launch_us)
    : queue_(queue), launch_us_(launch_us), hosts_(jobs) {}

// What is complete is behind nothing any more.
void StreamPool::Forget(const Simulation& sim) {
  for (int j = 0; j < sim.jobs(); ++j) {
    Host& host = hosts_[j];
    while (!host.freed.empty() && host.freed.front().event->complete) host.freed.pop_front();
    while (static_cast<int>(host.kernels.size()) > sim.in_flight(j)) host.kernels.pop_front();
  }
}

bool StreamPool::TryLaunch(Simulation& sim, int job) {
  Host& host = hosts_[job];
  const SubModelWork& sub = sim.next(job);
  const int kernels = Kernels(sim.work(job), sub);
  const int queued = std::accumulate(host.kernels.begin(), host.kernels.end(), 0);
  if (queued > 0 && queued + kernels > queue_) return false;
  Bytes held, behind;
  for (int j = 0; j < sim.jobs(); ++j) {
    held += sim.held(j);
    for (const Freed& freed : hosts_[j].freed) behind += freed.bytes;
  }
  Bytes lacking = std::max(Bytes(0), sub.needed - sim.held(job));
  if (held + lacking > sim.memory()) return false;

  const auto take = [&lacking](Host& from) {
    Simulation::Event last;
    while (lacking > Bytes(0) && !from.freed.empty()) {
      Freed& freed = from.freed.front();
      const Bytes bytes = std::min(lacking, freed.bytes);
      last = freed.event;
      lacking -= bytes;
      freed.bytes -= bytes;
      if (freed.bytes == Bytes(0)) from.freed.pop_front();
    }
    return last;
  };
  take(host);
  lacking = std::max(Bytes(0), lacking - (sim.memory() - held - behind));
  std::vector<Simulation::Event> after;
  for (Host& other : hosts_) {
    if (const Simulation::Event event = take(other)) after.push_back(event);
  }
  EBB_CHECK(lacking == Bytes(0));
  const Bytes used = std::max(sub.needed, sim.held(job));
  sim.Launch(job, after);
  if (used > sim.held(job)) host.freed.push_back({sim.newest(job), used - sim.held(job)});
  host.kernels.push_back(kernels);
  host.clock = std::max(host.clock, sim.now()) + kernels * launch_us_;
  return true;
}

void StreamPool::Decide(Simulation& sim) {
  Forget(sim);
  for (bool launched = true; launched;) {
    std::vector<int> order(hosts_.size());
    std::iota(order.begin(), order.end(), 0);
    // The threads run beside each other: the one that is behind comes first.
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return hosts_[a].clock < hosts_[b].clock; });
    launched =
        std::any_of(order.begin(), order.end(), [&](int job) { return TryLaunch(sim, job); });
  }
}

void StreamPool::BreakDeadlock(Simulation& sim) {
  Forget(sim);
  EBB_CHECK(DropLeastProgressed(sim));
}

}  // namespace ebb::bench
