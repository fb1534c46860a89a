#include "graph/graph.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/verify.h"

namespace ebb::graph {

absl::string_view Name(Role role) {
  switch (role) {
    case Role::kActivation:
      return "activation";
    case Role::kInput:
      return "input";
    case Role::kParam:
      return "param";
    case Role::kOptState:
      return "slot";
    case Role::kBuffer:
      return "buffer";
    case Role::kConstant:
      return "constant";
    case Role::kScalar:
      return "scalar";
    case Role::kMetric:
      return "metric";
  }
  return "?";
}

absl::string_view Name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kLoss:
      return "loss";
    case Phase::kBackward:
      return "backward";
    case Phase::kUpdate:
      return "update";
  }
  return "?";
}

std::string Graph::UniqueName(std::string name) {
  if (!by_name_.contains(name)) return name;
  for (int suffix = 1;; ++suffix) {
    std::string candidate = absl::StrCat(name, "_", suffix);
    if (!by_name_.contains(candidate)) return candidate;
  }
}

ValueId Graph::AddValue(std::string name, TensorType type, Role role) {
  Value value;
  value.id = ValueId(static_cast<int32_t>(values.size()));
  value.name = UniqueName(std::move(name));
  value.type = std::move(type);
  value.role = role;
  by_name_[value.name] = value.id;
  values.push_back(std::move(value));
  return values.back().id;
}

ValueId Graph::AddConstant(std::string name, HostTensor tensor) {
  const ValueId id = AddValue(std::move(name), tensor.type, Role::kConstant);
  value(id).data = std::make_shared<const HostTensor>(std::move(tensor));
  return id;
}

absl::StatusOr<NodeId> Graph::AddNode(absl::string_view op, std::string name,
                                      std::vector<ValueId> inputs, Attrs attrs, Phase phase,
                                      NodeId mirror) {
  Node node;
  node.id = NodeId(static_cast<int32_t>(nodes.size()));
  node.name = std::move(name);
  node.op = FindOp(op);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  node.phase = phase;
  node.mirror = mirror;
  const std::string where = absl::StrCat("node '", node.name, "' (", op, ")");
  if (node.op == nullptr) {
    return absl::UnimplementedError(absl::StrCat(where, ": there is no such op"));
  }
  auto types = OutputTypes(*this, node);
  if (!types.ok()) return Annotate(types.status(), where);
  for (size_t i = 0; i < types->size(); ++i) {
    const ValueId output = AddValue(i == 0 ? node.name : absl::StrCat(node.name, ".", i),
                                    std::move((*types)[i]), Role::kActivation);
    value(output).producer = node.id;
    node.outputs.push_back(output);
  }
  nodes.push_back(std::move(node));
  return nodes.back().id;
}

absl::StatusOr<ValueId> Graph::Add(absl::string_view op, std::string name,
                                   std::vector<ValueId> inputs, Attrs attrs, Phase phase,
                                   NodeId mirror) {
  EBB_ASSIGN_OR_RETURN(const NodeId id, AddNode(op, std::move(name), std::move(inputs),
                                                std::move(attrs), phase, mirror));
  EBB_CHECK(node(id).outputs.size() == 1);
  return node(id).outputs[0];
}

void Graph::Rename(ValueId id, std::string name) {
  if (value(id).name == name) return;
  by_name_.erase(value(id).name);
  value(id).name = UniqueName(std::move(name));
  by_name_[value(id).name] = id;
}

ValueId Graph::Find(absl::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? ValueId() : it->second;
}

std::string ToText(const Graph& graph) {
  std::string text;
  const auto name_of = [&](ValueId id) {
    return id.valid() ? absl::string_view(graph.value(id).name) : absl::string_view("-");
  };
  const auto append_list = [&](const std::vector<ValueId>& ids) {
    absl::string_view separator;
    for (ValueId id : ids) {
      absl::StrAppend(&text, separator, name_of(id));
      separator = ", ";
    }
  };
  for (const Value& value : graph.values) {
    if (value.producer.valid()) continue;
    absl::StrAppend(&text, value.name, " = ", Name(value.role), " ", ToString(value.type));
    if (value.slot_of.valid()) absl::StrAppend(&text, " of ", name_of(value.slot_of));
    text += "\n";
  }
  for (const Node& node : graph.nodes) {
    append_list(node.outputs);
    if (!node.outputs.empty()) text += " = ";
    absl::StrAppend(&text, node.op->name, "(");
    append_list(node.inputs);
    text += ")";
    if (!node.attrs.map().empty()) absl::StrAppend(&text, " ", ToString(node.attrs));
    if (node.phase != Phase::kForward) absl::StrAppend(&text, " @", Name(node.phase));
    if (node.mirror.valid() && !graph.node(node.mirror).outputs.empty()) {
      absl::StrAppend(&text, " ", name_of(graph.node(node.mirror).outputs[0]));
    }
    if (!node.outputs.empty()) text += "  #";
    for (ValueId output : node.outputs) {
      absl::StrAppend(&text, " ", ToString(graph.value(output).type));
    }
    text += "\n";
  }
  if (!graph.outputs.empty()) {
    text += "output ";
    append_list(graph.outputs);
    text += "\n";
  }
  return text;
}

}  // namespace ebb::graph
