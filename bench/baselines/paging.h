// All jobs at once in managed memory that their sum exceeds: what a sub-model touches is fetched
// over the bus first, the tensor that was touched the longest time ago makes room.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/baselines/simulation.h"

namespace ebb::bench {

// Whole tensors, least recently touched first out; written ones are copied to the host when they
// go. A tensor's first touch in a step fetches nothing, and what dies is forgotten. Faults are
// taken sub-model by sub-model, before it runs, and hold up its own stream alone.
class PagedSpatial final : public SharingPolicy {
 public:
  // `memory`: of the device; `bandwidth`: bytes a microsecond that faults reach, each way.
  PagedSpatial(const std::vector<const Workload*>& jobs, Bytes memory, double bandwidth);
  void Decide(Simulation& sim) override;
  Bytes fetched() const { return fetched_; }
  Bytes evicted() const { return evicted_; }

 private:
  struct Page {
    Bytes bytes;
    int64_t touched = -1;  // order of its newest touch; -1: not on the device
    bool exists = false;   // has contents
    bool dirty = false;    // that the host lacks
  };
  void Touch(int job, const Workload::Touch& touch);
  void MakeRoom(Bytes bytes);
  void Free(int job, int tensor);
  void Fault(Simulation& sim, int job);

  const double bandwidth_;
  Bytes free_;
  int64_t clock_ = 0;
  std::vector<std::vector<Page>> pages_;               // by job and tensor
  std::set<std::tuple<int64_t, int, int>> on_device_;  // touched, job, tensor
  Bytes fetched_, evicted_;
};

}  // namespace ebb::bench
