#include "graph/graph.h"

#include <limits>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/verify.h"

namespace ebb::graph {
namespace {

constexpr int64_t kMaxShown = 8;  // elements of a constant

template <class T>
std::string JoinData(const HostTensor& tensor) {
  std::string text;
  for (T element : tensor.as<T>()) {
    if constexpr (sizeof(T) == 1) {
      absl::StrAppend(&text, " ", static_cast<int>(element));
    } else if constexpr (std::is_floating_point_v<T>) {
      absl::StrAppend(&text,
                      absl::StrFormat(" %.*g", std::numeric_limits<T>::max_digits10, element));
    } else {
      absl::StrAppend(&text, " ", element);
    }
  }
  return text;
}

std::string DataToText(const HostTensor& tensor) {
  if (NumElements(tensor.type.shape) > kMaxShown) return " ...";
  switch (tensor.type.dtype) {
    case DType::kF32:
      return JoinData<float>(tensor);
    case DType::kF64:
      return JoinData<double>(tensor);
    case DType::kI32:
      return JoinData<int32_t>(tensor);
    case DType::kI64:
      return JoinData<int64_t>(tensor);
    case DType::kU8:
    case DType::kBool:
      return JoinData<uint8_t>(tensor);
    case DType::kBF16:
    case DType::kF16:
      break;  // constants never are
  }
  return "";
}

}  // namespace

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
    if (value.data != nullptr) text += DataToText(*value.data);
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
  std::vector<ValueId> metrics;
  for (const Value& value : graph.values) {
    if (value.role == Role::kMetric) metrics.push_back(value.id);
  }
  for (const auto& [word, ids] : {std::pair("metric ", metrics), {"output ", graph.outputs}}) {
    if (ids.empty()) continue;
    text += word;
    append_list(ids);
    text += "\n";
  }
  return text;
}

}  // namespace ebb::graph
