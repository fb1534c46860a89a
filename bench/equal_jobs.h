// Equal jobs of the zoo through the engine on a new simulated device. Free functions.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "runtime/engine.h"

namespace ebb::bench {

struct EqualJobs {
  std::string device;  // "sim:" and what device::OpenSim takes
  std::string model;
  int64_t batch = 0;
  int jobs = 1;
  int64_t steps = 0;  // of each
};

struct RunTimes {
  Micros first_start, last_start, first_end, last_end;
  Bytes resident;          // of each
  int64_t sub_models = 0;  // of a training step
  runtime::OverlapReport overlap;

  Micros Span() const { return last_end - first_start; }
  bool Overlapped() const { return last_start < first_end; }  // all were in training at one time
};

// All submitted at instant 0. `options` without memory: all of the device's. ResourceExhausted: one
// does not fit; Internal: one did not succeed.
absl::StatusOr<RunTimes> RunEqualJobs(const EqualJobs& jobs, runtime::EngineOptions options);

}  // namespace ebb::bench
