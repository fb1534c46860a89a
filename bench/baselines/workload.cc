#include "bench/baselines/workload.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"

namespace ebb::bench {
namespace {

using graph::Graph;
using graph::Phase;

// Live bytes by node, with scratch; then what each sub-model needs and holds.
void AddBytes(const runtime::StepProgram& step, Workload* work) {
  const size_t nodes = step.graph.nodes.size();
  std::vector<Bytes> change(nodes + 1), live(nodes);
  for (size_t b = 0; b < step.liveness.buffers.size(); ++b) {
    const graph::Buffer& buffer = step.liveness.buffers[b];
    change[buffer.first] += step.range_bytes[b];
    change[buffer.last + 1] -= step.range_bytes[b];
  }
  Bytes sum;
  for (size_t n = 0; n < nodes; ++n) {
    sum += change[n];
    live[n] = sum;
  }
  for (SubModelWork& sub : work->sub_models) {
    for (int n = sub.first; n <= sub.last; ++n) {
      const int scratch = step.workspace_range[n];
      sub.needed =
          std::max(sub.needed, live[n] + (scratch < 0 ? Bytes(0) : step.range_bytes[scratch]));
    }
    sub.held = live[sub.last];
    for (size_t b = 0; b < step.liveness.buffers.size(); ++b) {
      if (step.liveness.buffers[b].last == sub.last) sub.held -= step.range_bytes[b];
    }
  }
}

// Which tensors each node reads and writes.
void AddTensors(const runtime::StepProgram& step, Workload* work) {
  const Graph& graph = step.graph;
  for (size_t b = 0; b < step.liveness.buffers.size(); ++b) {
    work->tensors.push_back({step.range_bytes[b], step.liveness.buffers[b].last});
  }
  absl::flat_hash_map<ValueId, int> state;
  const auto tensor_of = [&](ValueId id) {
    if (const int buffer = step.liveness.buffer_of[id.index()]; buffer >= 0) return buffer;
    if (const ValueId shown = step.liveness.alias_of[id.index()]; shown.valid()) id = shown;
    if (!graph::IsResident(graph.value(id).role)) return -1;
    const auto [it, is_new] = state.emplace(id, static_cast<int>(work->tensors.size()));
    if (is_new) work->tensors.push_back({graph.value(id).type.bytes(), -1});
    return it->second;
  };
  for (const graph::Node& node : graph.nodes) {
    std::vector<Workload::Touch>& touched = work->touched.emplace_back();
    for (const ValueId id : node.inputs) {
      if (!id.valid()) continue;
      const int tensor = tensor_of(id);
      // Updates write the state that they read.
      if (tensor >= 0) touched.push_back({tensor, node.phase == Phase::kUpdate});
    }
    for (const ValueId id : node.outputs) {
      if (const int tensor = tensor_of(id); tensor >= 0) touched.push_back({tensor, true});
    }
  }
}

}  // namespace

void Complete(const device::SimProfile& profile, Workload* work) {
  Bytes need;
  for (auto sub = work->sub_models.rbegin(); sub != work->sub_models.rend(); ++sub) {
    need = std::max(need, sub->needed);
    sub->need = need;
    sub->micros = 0;
    for (int k = sub->first; k <= sub->last; ++k) {
      const double micros = work->kernels[k].micros;
      if (micros > 0) sub->micros += micros + profile.kernel_gap_us;
    }
  }
}

Workload WorkloadOf(const runtime::PreparedJob& job, const device::SimProfile& profile) {
  EBB_CHECK(job.IsPlanned());
  const runtime::StepProgram& step = *job.programs()[0];
  Workload work{
      .model = job.spec.model.zoo, .batch = job.spec.batch_size, .resident = job.resident.bytes};
  for (const graph::Node& node : step.graph.nodes) {
    work.kernels.push_back(device::CostAlone(profile, step.graph, node));
  }
  for (const partitioner::SubModel& sub : step.partition.sub_models) {
    const bool forward = sub.phase == Phase::kForward || sub.phase == Phase::kLoss;
    work.sub_models.push_back({.first = sub.first, .last = sub.last, .forward = forward});
  }
  for (const ValueId input : step.inputs) {
    work.batch_micros += device::BusMicros(profile, step.graph.value(input).type.bytes());
  }
  AddBytes(step, &work);
  AddTensors(step, &work);
  Complete(profile, &work);
  return work;
}

}  // namespace ebb::bench
