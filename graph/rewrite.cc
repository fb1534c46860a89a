#include "graph/rewrite.h"

#include <algorithm>

#include "base/status.h"
#include "graph/op.h"

namespace ebb::graph {

std::vector<bool> LiveNodes(const Graph& graph, absl::Span<const ValueId> roots) {
  std::vector<bool> wanted(graph.values.size());
  for (ValueId root : roots) wanted[root.index()] = true;
  std::vector<bool> live(graph.nodes.size());
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = graph.nodes[i];
    live[i] = std::any_of(node.outputs.begin(), node.outputs.end(),
                          [&](ValueId output) { return wanted[output.index()]; });
    if (!live[i]) continue;
    for (ValueId input : node.inputs) {
      if (input.valid()) wanted[input.index()] = true;
    }
  }
  return live;
}

GraphCopy CopyLeaves(const Graph& from, const std::vector<bool>& live) {
  std::vector<bool> read(from.values.size());
  for (const Node& node : from.nodes) {
    if (!live[node.id.index()]) continue;
    for (ValueId input : node.inputs) {
      if (input.valid()) read[input.index()] = true;
    }
  }
  GraphCopy copy;
  copy.map.resize(from.values.size());
  for (const Value& value : from.values) {
    const bool only_if_read = value.role == Role::kConstant || value.role == Role::kScalar;
    if (value.producer.valid() || (only_if_read && !read[value.id.index()])) continue;
    const ValueId id = copy.graph.AddValue(value.name, value.type, value.role);
    copy.graph.value(id).layout = value.layout;
    copy.graph.value(id).data = value.data;
    copy.map[value.id.index()] = id;
  }
  for (const Value& value : from.values) {
    const ValueId id = copy.map[value.id.index()];
    if (id.valid() && value.slot_of.valid()) {
      copy.graph.value(id).slot_of = copy.map[value.slot_of.index()];
    }
  }
  return copy;
}

absl::Status CopyNode(const Graph& from, const Node& node, GraphCopy& copy) {
  EBB_ASSIGN_OR_RETURN(const NodeId id,
                       copy.graph.AddNode(node.op->name, node.name, Mapped(copy, node.inputs),
                                          node.attrs, node.phase));
  const std::vector<ValueId> outputs = copy.graph.node(id).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Value& source = from.value(node.outputs[i]);
    copy.graph.Rename(outputs[i], source.name);
    copy.graph.value(outputs[i]).role = source.role;
    copy.graph.value(outputs[i]).layout = source.layout;
    copy.map[source.id.index()] = outputs[i];
  }
  return absl::OkStatus();
}

std::vector<ValueId> Mapped(const GraphCopy& copy, absl::Span<const ValueId> ids) {
  std::vector<ValueId> mapped;
  for (ValueId id : ids) mapped.push_back(id.valid() ? copy.map[id.index()] : id);
  return mapped;
}

}  // namespace ebb::graph
