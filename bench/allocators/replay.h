// What allocators need and cost for the traces of co-trained jobs. Free functions.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/device_spec.h"
#include "bench/allocators/allocators.h"
#include "bench/allocators/trace.h"

namespace ebb::bench {

struct AllocatorOptions {
  std::string device = "sim:v100-16gb";  // "sim:" and what device::OpenSim takes
  std::vector<std::string> models;  // of the zoo, two equal jobs each; empty: all, and mixed pairs
  double fraction = 0.8;            // of the largest batch of a job alone
  int64_t steps = 6;                // of each job
  int runs = 7;                     // of which the median is told
};

struct AllocatorFigures {
  Bytes peak;
  double over_live = 0;  // peak / live peak
  double ns_per_op = 0;  // a birth or a death, on this machine's CPU
};

struct TraceFigures {
  std::string name;
  int64_t ops = 0;
  Bytes live_peak;
  std::map<std::string, AllocatorFigures> allocators;
};

struct AllocatorReport {
  DeviceSpec device;
  AllocatorOptions options;
  std::vector<TraceFigures> traces;
};

// "ebb", then the others in the order in which a table shows them.
const std::vector<std::string>& AllocatorNames();
std::unique_ptr<ReplayAllocator> MakeAllocator(const std::string& name);  // not "ebb"

// All allocators, by AllocatorNames(). "ebb" is the stack plan: its peak is what the lane needed,
// its operation the computation of an address at a birth; the plan itself was made before.
TraceFigures Replay(const AllocationTrace& trace, int runs);

absl::StatusOr<AllocatorReport> CompareAllocators(
    const AllocatorOptions& options, const std::function<void(const std::string&)>& on_trace);

}  // namespace ebb::bench
