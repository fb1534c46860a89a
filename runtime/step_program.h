// One kind of step (training or evaluation) of a job, ready to be launched: graph, kernels, cuts,
// stack plan. Immutable once it is made; free functions make one out of a graph or out of another.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/liveness.h"
#include "graph/streaming.h"
#include "memory/stack_plan.h"
#include "partitioner/partition.h"
#include "scheduler/scheduler.h"

namespace ebb::runtime {

// The input that says how many rows of the batch count.
inline constexpr char kValidInput[] = "ebb.valid";

// What the bytes that a step holds between two sub-models are for; padding is alignment and gaps.
struct HeldBytes {
  Bytes input, saved, transient, streamed, padding;
};

struct StepProgram {
  graph::Graph graph;  // lowered
  std::unique_ptr<device::Program> program;
  graph::Liveness liveness;
  partitioner::Partition partition;
  // What each sub-model copies between the host and the stack; empty: all state is resident.
  std::vector<graph::Traffic> traffic;
  Bytes bus_bytes;  // that all of them copy
  // Ranges of the plan: the liveness's buffers in order, then one a node with a workspace.
  memory::StackPlan plan;
  std::vector<Bytes> range_bytes;
  std::vector<int> workspace_range;  // per node; -1: none
  scheduler::StepProfile profile;
  std::vector<HeldBytes> held;   // per sub-model, after it
  std::vector<ValueId> inputs;   // as data_source.bindings, in order
  ValueId valid;                 // "ebb.valid", when the graph has it
  std::vector<ValueId> metrics;  // kMetric values in id order
  Bytes live_peak;

  // Height at which value `id` lies in the stack, and its bytes; nullopt for values outside of it.
  struct Place {
    Bytes offset;
    Bytes bytes;
  };
  std::optional<Place> PlaceOf(ValueId id) const;
};

// [0] training, [1] evaluation (null without validation data).
using StepPrograms = std::array<std::shared_ptr<const StepProgram>, 2>;
Bytes PeakOf(const StepPrograms& programs);

struct StepOptions {
  Bytes quantum;
  // 0: no limit. A step that needs more by its live bytes alone is neither compiled nor planned.
  Bytes memory;
  std::string strategy = {};  // of the stack plan; empty: the best of all
};

// From a graph that has been lowered. `inputs` are left to the caller.
absl::StatusOr<std::unique_ptr<StepProgram>> BuildStep(graph::Graph graph,
                                                       const device::Device& device,
                                                       const StepOptions& options);

// The same step with the named resident values on the host, cut at the same places.
// REQUIRES base.program.
absl::StatusOr<std::unique_ptr<StepProgram>> StreamStep(
    const StepProgram& base, const absl::flat_hash_set<std::string>& streamed,
    const device::Device& device, const StepOptions& options);

}  // namespace ebb::runtime
