// The memory ladder: ways to train the same job with less of the pool, each at a price. Results are
// the same bits at every level (docs/memory.md). Which of them the jobs use is decided by
// CheapestLevels (runtime/admission.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/units.h"
#include "device/device.h"
#include "runtime/job.h"
#include "runtime/placement.h"
#include "runtime/resident_layout.h"
#include "runtime/step_program.h"

namespace ebb::runtime {

// One level of a job: everything that depends on where its state is.
struct MemoryPlan {
  // "resident"; "offload", "stream" or "swap" and how much of it: "swap 63 %"; with "recompute"
  // before it where saved tensors are made again.
  std::string level;
  StepPrograms programs;
  Placement placement;
  Bytes bus_bytes;  // copied between host and device by a training step
  // By estimate, for which a training step alone would wait for the bus or make tensors again.
  double exposed_us = 0;
  Bytes Peak() const { return PeakOf(programs); }
  bool IsPlanned() const;  // else a step alone is larger than StepOptions::memory
};
using Ladder = std::vector<std::shared_ptr<const MemoryPlan>>;  // [0] is "resident"

// What the levels are made from.
struct LadderBase {
  LadderSpec spec;
  std::shared_ptr<const MemoryPlan> resident;
  ResidentLayout layout;
};

// How much of the ladder has been made. Levels cost their planning, so they are made as they are
// needed.
enum class LadderDepth { kResident, kStreamed, kRecomputed };

// Adds the levels of one depth to those of the depth before.
// kStreamed: each with more of the state on the host, first what comes and goes beside kernels that
// take longer (runtime/stream_order.h). kRecomputed: saved tensors are made again for up to 2 % and
// 10 % of the step, with the state resident or all on the host. What the spec excludes, and what
// does not fit `options.memory` by itself, is left out.
absl::Status Deepen(const LadderBase& base, LadderDepth depth, const device::Device& device,
                    const StepOptions& options, Ladder* ladder);

}  // namespace ebb::runtime
