// A step of a job as the baselines see it: the engine's own sub-models with their kernels and the
// bytes that live. No addresses: what a baseline would lose to fragmentation is not charged to it.
// Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/sim/profile.h"
#include "device/sim/roofline.h"
#include "runtime/prepare.h"

namespace ebb::bench {

struct SubModelWork {
  int first = 0, last = 0;  // kernels, inclusive
  bool forward = true;      // else backward and update
  Bytes needed;             // U: the most that lives while it runs, scratch included
  Bytes held;               // H: what lives across its end
  Bytes need;               // N: the largest U from here to the end of the step
  double micros = 0;        // of its kernels alone on the device
};

struct Workload {
  std::string model;
  int64_t batch = 0;
  std::vector<device::KernelCost> kernels;  // by node
  std::vector<SubModelWork> sub_models;
  Bytes resident;           // state: lives across steps
  double batch_micros = 0;  // of a batch's copies over the bus
  // Of a step alone on the device, filled in by who has measured it.
  double alone_micros = 0;
  double alone_held = 0;  // bytes beyond the state, mean over that time

  // For paging. Tensors: first those that live within a step, then the state's.
  struct Tensor {
    Bytes bytes;
    int last = -1;  // the last node that uses it; -1: state
  };
  std::vector<Tensor> tensors;
  struct Touch {
    int tensor = 0;
    bool writes = false;
  };
  std::vector<std::vector<Touch>> touched;  // by node

  Bytes Peak() const { return sub_models.front().need; }
  Bytes Footprint() const { return resident + Peak(); }
};

// REQUIRES job.IsPlanned().
Workload WorkloadOf(const runtime::PreparedJob& job, const device::SimProfile& profile);

// Fills in `need` and `micros`.
void Complete(const device::SimProfile& profile, Workload* work);

}  // namespace ebb::bench
