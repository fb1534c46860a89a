// Everything that is known of a job before it gets a byte: its graphs, programs, cuts, stack plans
// and resident layout. Prepare is a pure function of the spec and the device; it reads like the
// pipeline: import -> autodiff -> lower -> compile -> liveness -> cut -> plan.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "data/dataset.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/liveness.h"
#include "memory/stack_plan.h"
#include "partitioner/partition.h"
#include "runtime/host_budget.h"
#include "runtime/host_buffer.h"
#include "runtime/job.h"
#include "runtime/steps.h"
#include "scheduler/scheduler.h"

namespace ebb::runtime {

// Batches staged ahead of the step that reads them.
inline constexpr int kSlots = 3;

// What the bytes that a step holds between two sub-models are for; padding is alignment and gaps.
struct HeldBytes {
  Bytes input, saved, transient, padding;
};

// One kind of step (training or evaluation), ready to be launched.
struct StepProgram {
  graph::Graph graph;  // lowered
  std::unique_ptr<device::Program> program;
  graph::Liveness liveness;
  partitioner::Partition partition;
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

// Where resident values lie in the job's region.
struct ResidentLayout {
  absl::flat_hash_map<std::string, Bytes> shared;  // by name: parameters, slots, buffers, scalars
  // Constants and metrics belong to one program.
  std::array<absl::flat_hash_map<std::string, Bytes>, 2> own;
  std::array<Bytes, 2> metrics_begin;  // metric k of a program lies at begin + k x stride
  Bytes metric_stride;
  Bytes state_end;  // [0, state_end): what a snapshot holds (parameters, slots, buffers)
  Bytes bytes;      // all of it
  std::map<std::string, Bytes> classes;  // "parameters", "optimizer state", ... for reports
};

struct PreparedJob {
  JobSpec spec;
  std::vector<std::string> warnings;
  // Initial values of parameters and buffers; none for kSizes and on a device that does not
  // compute.
  graph::TensorMap weights;
  // [0] training, [1] evaluation (null without validation data).
  std::array<std::unique_ptr<StepProgram>, 2> programs;
  std::array<data::BatchSource, 2> sources;
  ResidentLayout resident;
  // One staged batch of either kind. Staged batches lie in the pool where that is host memory, else
  // in the host's, from which a step copies its own over the bus.
  Bytes slot_bytes;
  bool stages_in_pool = true;
  // Made by AllocateHost(): the slots on the host, then, on a device that does not compute, the
  // addresses of a copy of the resident state. Null where neither is.
  std::unique_ptr<HostBuffer> host;
  std::array<std::vector<Bytes>, 2> slot_offsets;  // of each binding, then of "ebb.valid"
  StepSequence::Shape steps;
  // What it takes of the host's memory, where that is counted: staged batches, and the result.
  std::shared_ptr<HostBudget::Share> host_share;
  std::optional<Micros> predicted_step;  // alone, where the engine knows (runtime/predict.h)
  Bytes Peak() const;                    // the larger of the two plans'
  bool IsPlanned() const;  // else one of its steps is larger than PrepareOptions::memory
  Bytes StagingInPool() const { return stages_in_pool ? slot_bytes * kSlots : Bytes(0); }
  // Of the host's: its parameters, buffers and slots, when it has succeeded.
  Bytes ResultBytes(const DeviceSpec& device) const {
    return device.computes ? resident.state_end : Bytes(0);
  }
  Bytes StagingOnHost() const { return stages_in_pool ? Bytes(0) : slot_bytes * kSlots; }
};

// What a job is prepared for: to run, or only to learn what it needs, which draws no weights and
// does without data.
enum class Purpose { kRun, kSizes };

struct PrepareOptions {
  Bytes quantum;
  // Of the pool; 0: no limit. A step that needs more by its live bytes alone is neither compiled
  // nor planned (its program is null): Peak() is then those bytes, a lower bound.
  Bytes memory;
  Purpose purpose = Purpose::kRun;
};

// On a device that does not compute, weights and data may be missing: values do not exist there.
absl::StatusOr<std::unique_ptr<PreparedJob>> Prepare(JobSpec spec, const device::Device& device,
                                                     const PrepareOptions& options);

}  // namespace ebb::runtime
