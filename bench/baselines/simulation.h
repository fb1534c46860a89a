// Jobs that share a simulated device under some policy: the same virtual time, kernels and
// sub-models as the engine's, without the engine. A policy decides which job's next sub-model is
// launched when; the simulation enqueues it, keeps count and moves time on. Thread rule: one owner
// thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "bench/baselines/workload.h"
#include "device/sim/timeline.h"
#include "runtime/launch_report.h"

namespace ebb::bench {

class Simulation;

class SharingPolicy {
 public:
  virtual ~SharingPolicy() = default;
  // Launches all that may be launched now. Called at the start and after every completion.
  virtual void Decide(Simulation& sim) = 0;
  // Nothing runs and Decide() launched nothing. Called until it does.
  virtual void BreakDeadlock(Simulation& sim);
};

class Simulation {
 public:
  using Event = device::Timeline::Event;
  static constexpr int kAhead = 2;  // launched, unfinished sub-models a job, as in the engine

  // `pool` is all memory; the jobs' state is taken from it. The workloads must outlive this.
  Simulation(const device::SimProfile& profile, device::OverlapModel overlap,
             std::vector<const Workload*> jobs, Bytes pool);

  // Until `horizon` (microseconds).
  void Run(SharingPolicy& policy, double horizon);

  // By job, in order; launches of steps that were dropped are not among them.
  const std::vector<std::vector<runtime::LaunchReport>>& launches() const { return launches_; }
  int64_t drops() const { return drops_; }

  // --- What policies see and do.
  int jobs() const { return static_cast<int>(jobs_.size()); }
  const Workload& work(int job) const { return *jobs_[job].work; }
  const SubModelWork& next(int job) const {  // the sub-model that Launch() would launch
    return work(job).sub_models[jobs_[job].next];
  }
  int next_index(int job) const { return jobs_[job].next; }
  bool in_step(int job) const { return jobs_[job].next > 0; }
  int in_flight(int job) const { return static_cast<int>(jobs_[job].in_flight.size()); }
  double service(int job) const { return jobs_[job].service; }  // of all it has launched
  Bytes memory() const { return memory_; }                      // pool without state
  Bytes held(int job) const { return jobs_[job].held; }         // across its newest launch's end
  Bytes claimed(int job) const;  // the most that its launches in flight need, at least held()
  Event newest(int job) const { return jobs_[job].newest; }  // null: it has launched nothing
  double now() const { return timeline_.now(); }

  void Launch(int job, absl::Span<const Event> after = {});
  // Before what is launched next: a copy over the bus, or nothing for a while.
  void Transfer(int job, device::BusDirection direction, double micros);
  void Pause(int job, double micros);
  // Its step in flight is begun anew. REQUIRES in_flight(job) == 0.
  void DropStep(int job);
  // Jobs by increasing service; equals by index.
  std::vector<int> LeastServedFirst() const;

 private:
  struct Flight {
    Event event;
    int sub_model = 0;
  };
  struct Job {
    const Workload* work = nullptr;
    device::StreamId kernels, copies;
    int next = 0;
    std::deque<Flight> in_flight;
    Bytes held;
    Event newest;
    Event batch;  // of the next step: it has been copied
    double service = 0;
  };
  void CopyBatch(Job& job);
  bool Harvest();

  device::Timeline timeline_;
  const Bytes pool_;
  Bytes memory_;
  std::vector<Job> jobs_;
  std::vector<std::vector<runtime::LaunchReport>> launches_;
  int64_t launched_ = 0, drops_ = 0;
};

}  // namespace ebb::bench
