#include "device/common/rounded.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/op.h"

namespace ebb::device {
namespace {

using graph::DType;
using graph::Graph;
using graph::Node;

RoundedOperand Place(const graph::Value& value, int64_t alignment, RoundedPlan* plan) {
  const DType dtype = value.type.dtype;
  if (!graph::IsLow(dtype)) return {};
  const RoundedOperand copy{true, dtype, graph::NumElements(value.type.shape), plan->bytes};
  const int64_t bytes = copy.elements * static_cast<int64_t>(sizeof(float));
  plan->bytes += (bytes + alignment - 1) / alignment * alignment;
  return copy;
}

std::shared_ptr<const Graph> MakeShadow(const Graph& graph, const Node& node) {
  auto shadow = std::make_shared<Graph>();
  Node copy = node;
  copy.id = NodeId(0);
  copy.mirror = NodeId();
  std::vector<std::pair<ValueId, ValueId>> known;
  const auto map = [&](ValueId id) {
    if (!id.valid()) return id;
    const auto it = std::find_if(known.begin(), known.end(),
                                 [id](const auto& pair) { return pair.first == id; });
    if (it != known.end()) return it->second;
    const graph::Value& value = graph.value(id);
    graph::TensorType type = value.type;
    if (graph::IsLow(type.dtype)) type.dtype = DType::kF32;
    const ValueId made = shadow->AddValue(value.name, std::move(type), value.role);
    shadow->value(made).layout = value.layout;
    shadow->value(made).data = value.data;
    known.emplace_back(id, made);
    return made;
  };
  for (ValueId& id : copy.inputs) id = map(id);
  for (ValueId& id : copy.outputs) {
    id = map(id);
    shadow->value(id).producer = copy.id;
  }
  shadow->nodes.push_back(std::move(copy));
  return shadow;
}

}  // namespace

bool TouchesLow(const Graph& graph, const Node& node) {
  const auto low = [&](ValueId id) {
    return id.valid() && graph::IsLow(graph.value(id).type.dtype);
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), low) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), low);
}

absl::StatusOr<RoundedPlan> PlanRounded(const Graph& graph, const Node& node, Bytes alignment) {
  for (const int input : node.op->mutates) {
    const ValueId id = node.inputs[static_cast<size_t>(input)];
    if (id.valid() && graph::IsLow(graph.value(id).type.dtype)) {
      return absl::UnimplementedError(absl::StrCat(node.op->name, " cannot update a value of ",
                                                   graph::Name(graph.value(id).type.dtype)));
    }
  }
  RoundedPlan plan;
  const auto place = [&](ValueId id) {
    return id.valid() ? Place(graph.value(id), alignment.count(), &plan) : RoundedOperand();
  };
  for (const ValueId id : node.inputs) plan.in.push_back(place(id));
  for (const ValueId id : node.outputs) plan.out.push_back(place(id));
  plan.shadow = MakeShadow(graph, node);
  return plan;
}

}  // namespace ebb::device
