#include "runtime/step_program.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace ebb::runtime {
namespace {

using graph::Graph;
using graph::Role;

// The largest extent at any node of [first, last].
Bytes MaxExtent(const memory::StackPlan& plan, int first, int last) {
  return *std::max_element(plan.extent.begin() + first, plan.extent.begin() + last + 1);
}

Bytes& ClassOf(HeldBytes& held, graph::BufferClass cls) {
  switch (cls) {
    case graph::BufferClass::kInput:
      return held.input;
    case graph::BufferClass::kSaved:
      return held.saved;
    case graph::BufferClass::kStreamed:
      return held.streamed;
    case graph::BufferClass::kTransient:
      break;
  }
  return held.transient;
}

void PlanMemory(const device::Device& device, absl::string_view strategy, StepProgram* step) {
  const int nodes = static_cast<int>(step->graph.nodes.size());
  std::vector<memory::LiveRange> ranges;
  for (const graph::Buffer& buffer : step->liveness.buffers) {
    ranges.push_back({buffer.bytes, buffer.first, buffer.last});
  }
  step->workspace_range.assign(nodes, -1);
  for (int n = 0; n < nodes; ++n) {
    const Bytes workspace = step->program->Workspace(NodeId(n));
    if (workspace == Bytes(0)) continue;
    step->workspace_range[n] = static_cast<int>(ranges.size());
    ranges.push_back({workspace, n, n});
  }
  const Bytes alignment = device.spec().alignment;
  step->plan = memory::PlanStack(ranges, nodes, alignment, strategy);

  const size_t buffers = step->liveness.buffers.size();
  for (const memory::LiveRange& range : ranges) {
    step->range_bytes.push_back(AlignUp(range.bytes, alignment));
  }
  for (const partitioner::SubModel& sub : step->partition.sub_models) {
    HeldBytes held;
    Bytes height, used;
    for (size_t r = 0; r < buffers; ++r) {
      if (ranges[r].first > sub.last || ranges[r].last <= sub.last) continue;
      height = std::max(height, step->plan.offset[r] + step->range_bytes[r]);
      used += ranges[r].bytes;
      ClassOf(held, step->liveness.buffers[r].cls) += ranges[r].bytes;
    }
    held.padding = height - used;
    step->held.push_back(held);
    step->profile.extent.push_back(MaxExtent(step->plan, sub.first, sub.last));
    step->profile.held_after.push_back(height);
  }
}

// Liveness, and the values that the engine knows by name. False: the step alone is too large.
bool Survey(Bytes memory, StepProgram* step) {
  for (const graph::Value& value : step->graph.values) {
    if (value.role == Role::kInput && value.name == kValidInput) step->valid = value.id;
    if (value.role == Role::kMetric) step->metrics.push_back(value.id);
  }
  step->liveness = graph::ComputeLiveness(step->graph);
  step->live_peak = graph::LivePeak(step->liveness, static_cast<int>(step->graph.nodes.size()));
  if (memory == Bytes(0) || step->live_peak <= memory) return true;
  step->plan.peak = step->live_peak;
  return false;
}

}  // namespace

std::optional<StepProgram::Place> StepProgram::PlaceOf(ValueId id) const {
  const int buffer = liveness.buffer_of[id.index()];
  if (buffer < 0) return std::nullopt;
  return Place{plan.offset[buffer], range_bytes[buffer]};
}

Bytes PeakOf(const StepPrograms& programs) {
  Bytes peak;
  for (const auto& step : programs) {
    if (step) peak = std::max(peak, step->plan.peak);
  }
  return peak;
}

absl::StatusOr<std::unique_ptr<StepProgram>> BuildStep(Graph graph, const device::Device& device,
                                                       const StepOptions& options) {
  auto step = std::make_unique<StepProgram>();
  step->graph = std::move(graph);
  EBB_RETURN_IF_ERROR(graph::Verify(step->graph));
  if (!Survey(options.memory, step.get())) return step;
  EBB_ASSIGN_OR_RETURN(step->program, device.Compile(step->graph));
  EBB_ASSIGN_OR_RETURN(step->partition, partitioner::Split(step->graph, step->liveness,
                                                           {.quantum = options.quantum}));
  PlanMemory(device, options.strategy, step.get());
  return step;
}

absl::StatusOr<std::unique_ptr<StepProgram>> StreamStep(
    const StepProgram& base, const absl::flat_hash_set<std::string>& streamed,
    const device::Device& device, const StepOptions& options) {
  std::vector<graph::NodeRange> cuts;
  for (const partitioner::SubModel& sub : base.partition.sub_models) {
    cuts.push_back({sub.first, sub.last});
  }
  std::vector<bool> chosen;
  for (const graph::Value& value : base.graph.values) {
    chosen.push_back(graph::IsResident(value.role) && streamed.contains(value.name));
  }
  EBB_ASSIGN_OR_RETURN(graph::StreamedGraph rewritten,
                       graph::StreamState(base.graph, cuts, chosen));
  auto step = std::make_unique<StepProgram>();
  step->graph = std::move(rewritten.graph);
  EBB_RETURN_IF_ERROR(graph::Verify(step->graph));
  step->inputs = base.inputs;
  step->bus_bytes = rewritten.fetched + rewritten.stored;
  step->traffic = std::move(rewritten.traffic);
  step->partition = base.partition;
  for (size_t s = 0; s < cuts.size(); ++s) {
    step->partition.sub_models[s].first = rewritten.sub_models[s].first;
    step->partition.sub_models[s].last = rewritten.sub_models[s].last;
  }
  if (!Survey(options.memory, step.get())) return step;
  EBB_ASSIGN_OR_RETURN(step->program, device.Compile(step->graph));
  PlanMemory(device, base.plan.strategy, step.get());
  return step;
}

}  // namespace ebb::runtime
