#include "graph/verify.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

constexpr int kMaxRank = 8;
constexpr Bytes kMaxBytes = GiB(int64_t{1} << 14);  // 16 TiB a value

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool InRange(ValueId id, const Graph& graph) {
  return id.valid() && id.index() < graph.values.size();
}
bool InRange(NodeId id, const Graph& graph) {
  return id.valid() && id.index() < graph.nodes.size();
}

absl::Status CheckInputs(const Graph& graph, const Node& node) {
  const int count = static_cast<int>(node.inputs.size());
  if (count < node.op->min_inputs || (node.op->max_inputs >= 0 && count > node.op->max_inputs)) {
    return Invalid(absl::StrCat(
        "it has ", count, " inputs, the op takes ", node.op->min_inputs,
        node.op->max_inputs < 0 ? " or more" : absl::StrCat(" to ", node.op->max_inputs)));
  }
  for (int i = 0; i < count; ++i) {
    const ValueId input = node.inputs[static_cast<size_t>(i)];
    if (!input.valid()) {
      if (i < node.op->min_inputs || node.op->max_inputs < 0) {
        return Invalid(absl::StrCat("input ", i, " is required"));
      }
    } else if (!InRange(input, graph)) {
      return Invalid(absl::StrCat("input ", i, " is no value of the graph"));
    }
  }
  return absl::OkStatus();
}

// A value by itself: its place, type, role and what the role demands.
absl::Status CheckValue(const Graph& graph, const Value& value) {
  EBB_RETURN_IF_ERROR(CheckType(value.type));
  if (value.role > Role::kMetric) return Invalid("unknown role");
  const bool made = value.role == Role::kActivation || value.role == Role::kMetric;
  if (made != value.producer.valid()) {
    return Invalid(
        absl::StrCat(Name(value.role), made ? " that no node makes" : " made by a node"));
  }
  if (made && !InRange(value.producer, graph)) return Invalid("its producer does not exist");
  if ((value.role == Role::kConstant) != (value.data != nullptr)) {
    return Invalid("a constant, and nothing else, has data");
  }
  if (value.data != nullptr &&
      (value.data->type != value.type ||
       Bytes(static_cast<int64_t>(value.data->data.size())) != value.type.bytes())) {
    return Invalid("its data do not fit its type");
  }
  if ((value.role == Role::kOptState) != value.slot_of.valid()) {
    return Invalid("an optimizer slot, and nothing else, belongs to a parameter");
  }
  if (value.slot_of.valid() &&
      (!InRange(value.slot_of, graph) || graph.value(value.slot_of).role != Role::kParam)) {
    return Invalid("its slot_of is no parameter");
  }
  if (value.layout == Layout::kChannelsLast &&
      (value.type.shape.size() < 3 || value.type.shape.size() > 5)) {
    return Invalid("channels last needs rank 3 to 5");
  }
  return absl::OkStatus();
}

// Walks the nodes in order; remembers what has been made and what has been updated.
class NodeChecker {
 public:
  explicit NodeChecker(const Graph& graph)
      : graph_(graph), made_(graph.values.size()), updated_(graph.values.size()) {
    for (const Value& value : graph.values) root_.push_back(value.id);
  }

  absl::Status Check(const Node& node) {
    EBB_RETURN_IF_ERROR(CheckPhase(node));
    EBB_ASSIGN_OR_RETURN(const std::vector<TensorType> types, OutputTypes(graph_, node));
    for (ValueId input : node.inputs) {
      if (!input.valid()) continue;
      const Value& value = graph_.value(input);
      if (value.producer.valid() && !made_[input.index()]) {
        return Invalid(absl::StrCat("reads '", value.name, "' before it is made"));
      }
      if (node.op->name != "Store" && updated_[root_[input.index()].index()]) {
        return Invalid(absl::StrCat("reads '", value.name, "' after its update"));
      }
    }
    EBB_RETURN_IF_ERROR(CheckMutations(node));
    return CheckOutputs(node, types);
  }

 private:
  absl::Status CheckPhase(const Node& node) {
    if (node.phase > Phase::kUpdate) return Invalid("unknown phase");
    // Updates come between backward nodes; after backward the next micro-batch may begin.
    const Phase stage = node.phase == Phase::kUpdate ? Phase::kBackward : node.phase;
    const bool begins_again = stage == Phase::kForward && stage_ == Phase::kBackward;
    if (stage < stage_ && !begins_again) {
      return Invalid(absl::StrCat("phase ", Name(node.phase), " after ", Name(stage_)));
    }
    stage_ = stage;
    const bool needs_mirror = stage == Phase::kBackward;
    if (!node.mirror.valid()) {
      return needs_mirror ? Invalid("a backward or update node needs a mirror") : absl::OkStatus();
    }
    if (!needs_mirror || node.mirror >= node.id || graph_.node(node.mirror).phase > Phase::kLoss) {
      return Invalid("a mirror leads from a backward or update node to a forward or loss node");
    }
    return absl::OkStatus();
  }

  absl::Status CheckMutations(const Node& node) {
    for (int mutated : node.op->mutates) {
      const auto i = static_cast<size_t>(mutated);
      if (i >= node.inputs.size() || !node.inputs[i].valid()) continue;
      const Value& value = graph_.value(node.inputs[i]);
      const bool fetched =
          value.producer.valid() && graph_.node(value.producer).op->name == "Fetch";
      if (value.role != Role::kParam && value.role != Role::kOptState &&
          value.role != Role::kBuffer && !fetched) {
        return Invalid(
            absl::StrCat("writes '", value.name, "', a value of role ", Name(value.role)));
      }
      if (node.phase == Phase::kUpdate) updated_[root_[value.id.index()].index()] = true;
    }
    return absl::OkStatus();
  }

  absl::Status CheckOutputs(const Node& node, const std::vector<TensorType>& types) {
    if (node.outputs.size() != types.size()) {
      return Invalid(
          absl::StrCat("it has ", node.outputs.size(), " outputs, the op makes ", types.size()));
    }
    for (size_t i = 0; i < types.size(); ++i) {
      if (!InRange(node.outputs[i], graph_)) {
        return Invalid(absl::StrCat("output ", i, " is no value of the graph"));
      }
      const Value& value = graph_.value(node.outputs[i]);
      if (value.producer != node.id || made_[value.id.index()]) {
        return Invalid(absl::StrCat("'", value.name, "' has another producer"));
      }
      if (value.type != types[i]) {
        return Invalid(absl::StrCat("'", value.name, "' is ", ToString(value.type),
                                    ", the op makes ", ToString(types[i])));
      }
      made_[value.id.index()] = true;
    }
    if (node.op->is_view) {
      const Value& view = graph_.value(node.outputs[0]);
      root_[view.id.index()] = root_[node.inputs[0].index()];
      if (view.role == Role::kMetric) return Invalid("a metric cannot be a view");
      if (view.type.bytes() != graph_.value(node.inputs[0]).type.bytes()) {
        return Invalid("a view has as many bytes as what it views");
      }
    }
    return absl::OkStatus();
  }

  const Graph& graph_;
  std::vector<bool> made_;
  std::vector<bool> updated_;
  std::vector<ValueId> root_;  // whose bytes a value shows: a view's is that of what it views
  Phase stage_ = Phase::kForward;
};

}  // namespace

absl::Status CheckType(const TensorType& type) {
  if (type.dtype > DType::kF16) return Invalid("unknown element type");
  if (type.shape.size() > kMaxRank) {
    return Invalid(absl::StrCat("rank ", type.shape.size(), "; the most is ", kMaxRank));
  }
  for (int64_t dim : type.shape) {
    if (dim < 0) return Invalid(absl::StrCat("negative dimension in ", ToString(type)));
  }
  if (type.bytes() > kMaxBytes) return Invalid(absl::StrCat(ToString(type), " is too large"));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TensorType>> OutputTypes(const Graph& graph, const Node& node) {
  EBB_RETURN_IF_ERROR(CheckInputs(graph, node));
  EBB_RETURN_IF_ERROR(CheckKinds(node.attrs));
  ShapeContext context{{}, node.attrs};
  for (ValueId input : node.inputs) {
    context.inputs.push_back(input.valid() ? &graph.value(input).type : nullptr);
  }
  EBB_ASSIGN_OR_RETURN(std::vector<TensorType> types, node.op->shape(context));
  for (const TensorType& type : types) EBB_RETURN_IF_ERROR(CheckType(type));
  return types;
}

absl::Status Verify(const Graph& graph) {
  absl::flat_hash_set<absl::string_view> names;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    const std::string where = absl::StrCat("value '", value.name, "'");
    if (value.id != ValueId(static_cast<int32_t>(i))) {
      return Invalid(absl::StrCat(where, ": its id is not its place, ", i));
    }
    if (value.name.empty()) return Invalid(absl::StrCat("value ", i, " has no name"));
    if (!names.insert(value.name).second) return Invalid(absl::StrCat(where, ": name used twice"));
    EBB_RETURN_IF_ERROR(Annotate(CheckValue(graph, value), where));
  }
  NodeChecker checker(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op == nullptr || node.id != NodeId(static_cast<int32_t>(i))) {
      return Invalid(absl::StrCat("node '", node.name, "': no op, or an id that is not its place"));
    }
    EBB_RETURN_IF_ERROR(Annotate(checker.Check(node),
                                 absl::StrCat("node '", node.name, "' (", node.op->name, ")")));
  }
  for (const Value& value : graph.values) {
    if (!value.producer.valid()) continue;
    const std::vector<ValueId>& made = graph.node(value.producer).outputs;
    if (std::find(made.begin(), made.end(), value.id) == made.end()) {
      return Invalid(absl::StrCat("value '", value.name, "': its producer does not make it"));
    }
  }
  for (ValueId output : graph.outputs) {
    if (!InRange(output, graph)) return Invalid("an output of the graph is no value of it");
  }
  return absl::OkStatus();
}

}  // namespace ebb::graph
