// The memory ladder: ways to train the same job with less of the pool, each at a price. Results are
// the same bits at every level (docs/memory.md). Which of them the jobs use is decided by
// CheapestLevels (runtime/admission.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/device.h"
#include "runtime/job.h"
#include "runtime/placement.h"
#include "runtime/resident_layout.h"
#include "runtime/step_program.h"

namespace ebb::runtime {

// One level of a job: everything that depends on where its state is.
struct MemoryPlan {
  std::string level;  // "resident"; "offload", "stream" or "swap" and how much of it: "swap 63 %"
  StepPrograms programs;
  Placement placement;
  Bytes bus_bytes;        // copied between host and device by a training step
  double exposed_us = 0;  // by estimate, for which a training step alone would wait for the bus
  Bytes Peak() const { return PeakOf(programs); }
};
using Ladder = std::vector<std::shared_ptr<const MemoryPlan>>;  // [0] is "resident"

// What the levels are made from.
struct LadderBase {
  LadderSpec spec;
  std::shared_ptr<const MemoryPlan> resident;
  ResidentLayout layout;
};

// All levels of a job, the resident one first, each with more of its state on the host: first what
// comes and goes beside kernels that take longer (runtime/stream_order.h).
absl::StatusOr<Ladder> MakeLadder(const LadderBase& base, const device::Device& device,
                                  const StepOptions& options);

}  // namespace ebb::runtime
