// How others share a device, as policies over the same simulated one: what Ebb is compared with.
// docs/benchmarks.md says what each stands for. Thread rule: one owner thread.
#pragma once

#include <deque>
#include <vector>

#include "bench/baselines/simulation.h"

namespace ebb::bench {

// One step at a time. Without a gap the next step's launches are made ahead and wait for the last
// one's end on the device; with one, the device is idle for `gap` of the job's own step before each
// step.
class TimeSharing final : public SharingPolicy {
 public:
  enum class Order {
    kLeastServed,  // the job that has had the least service
    kInTurn,       // a step each, one job after the other
  };
  explicit TimeSharing(double gap, Order order = Order::kLeastServed) : gap_(gap), order_(order) {}
  void Decide(Simulation& sim) override;

 private:
  const double gap_;
  const Order order_;
  int turn_ = -1;
};

// All jobs at once, each as if it were alone: their memory is somebody else's concern.
class Spatial final : public SharingPolicy {
 public:
  void Decide(Simulation& sim) override;
};

// Any sub-model whose bytes are there, least served job first. When nobody's are, the step that has
// come least far is dropped and begun anew.
class Greedy final : public SharingPolicy {
 public:
  void Decide(Simulation& sim) override;
  void BreakDeadlock(Simulation& sim) override;
};

// Any sub-model whose bytes are there, as long as some order remains in which all steps in flight
// can be brought to their ends (Dijkstra's banker, on the jobs' known needs). Never dead-locks.
class Banker final : public SharingPolicy {
 public:
  void Decide(Simulation& sim) override;
};

// Two jobs at a time: one goes forward while the other goes backward, then the one becomes the
// other and the next job in turn goes forward. Forward leaves room for all that backward needs.
class TickTock final : public SharingPolicy {
 public:
  explicit TickTock(int jobs);
  void Decide(Simulation& sim) override;

 private:
  bool Done(const Simulation& sim) const;
  int fore_ = 0;   // goes forward
  int back_ = -1;  // goes backward; -1: nobody yet
  bool back_begun_ = false, fore_begun_ = false;
  std::deque<int> waiting_;
};

// Drops the step in flight that has come least far, by sub-models. False if none is in flight.
bool DropLeastProgressed(Simulation& sim);

}  // namespace ebb::bench
