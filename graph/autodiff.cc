#include "graph/autodiff.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/training.h"

namespace ebb::graph {
namespace {

// One use's share of a value's gradient.
struct Share {
  NodeId use;
  size_t input = 0;
  ValueId gradient;
};

class Backward {
 public:
  Backward(Graph& graph, const std::vector<bool>& wanted, const OnGradient& on_gradient)
      : graph_(graph),
        wanted_(wanted),
        on_gradient_(on_gradient),
        needs_(graph.values.size()),
        on_path_(graph.nodes.size()),
        first_use_(graph.values.size()),
        shares_(graph.values.size()),
        gradient_(graph.values.size()) {}

  absl::StatusOr<std::vector<ValueId>> Run(ValueId loss) {
    FindPath(loss);
    if (!needs_[loss.index()]) return gradient_;
    gradient_[loss.index()] = Seed(loss);
    for (size_t i = on_path_.size(); i-- > 0;) {
      if (!on_path_[i]) continue;
      const Node node = graph_.nodes[i];  // a copy: emitting grows the vector
      EBB_RETURN_IF_ERROR(Annotate(DifferentiateNode(node),
                                   absl::StrCat("node '", node.name, "' (", node.op->name, ")")));
      EBB_RETURN_IF_ERROR(FinishInputs(node));
    }
    return gradient_;
  }

 private:
  class Context;

  // needs_: a wanted value is upstream (or it is one). on_path_: needed, and the loss depends on
  // it.
  void FindPath(ValueId loss) {
    for (const Value& value : graph_.values) {
      needs_[value.id.index()] = wanted_[value.id.index()] && IsFloat(value.type.dtype);
    }
    std::vector<bool> needed(graph_.nodes.size());
    for (const Node& node : graph_.nodes) {
      needed[node.id.index()] =
          std::any_of(node.inputs.begin(), node.inputs.end(),
                      [&](ValueId input) { return input.valid() && needs_[input.index()]; });
      for (ValueId output : node.outputs) {
        const bool differentiable = IsFloat(graph_.value(output).type.dtype);
        if (needed[node.id.index()] && differentiable) needs_[output.index()] = true;
      }
    }
    std::vector<bool> reaches(graph_.values.size());
    reaches[loss.index()] = true;
    for (size_t i = graph_.nodes.size(); i-- > 0;) {
      const Node& node = graph_.nodes[i];
      on_path_[i] =
          needed[i] && std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
            return reaches[output.index()] && needs_[output.index()];
          });
      if (!on_path_[i]) continue;
      for (ValueId input : node.inputs) {
        if (!input.valid() || !needs_[input.index()]) continue;
        reaches[input.index()] = true;
        first_use_[input.index()] = node.id;  // the last one set is the first in order
      }
    }
  }

  ValueId Seed(ValueId loss) {
    const TensorType type = graph_.value(loss).type;
    HostTensor one = type.dtype == DType::kF64
                         ? HostTensor::Of<double>(type.dtype, type.shape, {1.0})
                         : HostTensor::Of<float>(type.dtype, type.shape, {1.0F});
    return graph_.AddConstant("grad/seed", std::move(one));
  }

  absl::Status DifferentiateNode(const Node& node);

  // After `node` nothing more is added to the gradients of values that it was the first to use.
  absl::Status FinishInputs(const Node& node) {
    for (ValueId input : node.inputs) {
      if (!input.valid() || first_use_[input.index()] != node.id) continue;
      first_use_[input.index()] = NodeId();  // once, though the node may use it twice
      EBB_RETURN_IF_ERROR(SumShares(input, node));
    }
    for (ValueId input : std::exchange(finished_, {})) {
      if (!wanted_[input.index()]) continue;
      EBB_RETURN_IF_ERROR(on_gradient_(input, gradient_[input.index()], node.id));
    }
    return absl::OkStatus();
  }

  absl::Status SumShares(ValueId value, const Node& node) {
    std::vector<Share> shares = std::exchange(shares_[value.index()], {});
    if (shares.empty()) return absl::OkStatus();
    std::sort(shares.begin(), shares.end(), [](const Share& a, const Share& b) {
      return std::pair(a.use, a.input) < std::pair(b.use, b.input);
    });
    if (shares.size() == 1) {
      gradient_[value.index()] = shares[0].gradient;
    } else {
      std::vector<ValueId> terms;
      terms.reserve(shares.size());
      for (const Share& share : shares) terms.push_back(share.gradient);
      EBB_ASSIGN_OR_RETURN(gradient_[value.index()],
                           graph_.Add("AddN", absl::StrCat("grad/", graph_.value(value).name),
                                      std::move(terms), {}, Phase::kBackward, node.id));
    }
    finished_.push_back(value);
    return absl::OkStatus();
  }

  Graph& graph_;
  const std::vector<bool>& wanted_;
  const OnGradient& on_gradient_;
  std::vector<bool> needs_;
  std::vector<bool> on_path_;
  std::vector<NodeId> first_use_;  // per value: the first node on the path that uses it
  std::vector<std::vector<Share>> shares_;
  std::vector<ValueId> gradient_;
  std::vector<ValueId> finished_;  // at the present node, in the order of its inputs
};

class Backward::Context final : public GradContext {
 public:
  Context(Backward& backward, const Node& node)
      : backward_(backward), node_(node), given_(node.inputs.size()) {}

  const Node& node() const override { return node_; }

  // A copy, so that the reference outlives the growth of the graph's values.
  const TensorType& type(ValueId value) const override {
    return types_.try_emplace(value, backward_.graph_.value(value).type).first->second;
  }

  ValueId dy(size_t output) const override {
    return output < node_.outputs.size() ? backward_.gradient_[node_.outputs[output].index()]
                                         : ValueId();
  }

  bool needs(size_t input) const override {
    return input < node_.inputs.size() && node_.inputs[input].valid() &&
           backward_.needs_[node_.inputs[input].index()];
  }

  absl::StatusOr<ValueId> Emit(absl::string_view op, std::vector<ValueId> inputs,
                               Attrs attrs) override {
    return backward_.graph_.Add(op, Name(), std::move(inputs), std::move(attrs), Phase::kBackward,
                                node_.id);
  }

  absl::StatusOr<std::vector<ValueId>> EmitAll(absl::string_view op, std::vector<ValueId> inputs,
                                               Attrs attrs) override {
    EBB_ASSIGN_OR_RETURN(const NodeId id,
                         backward_.graph_.AddNode(op, Name(), std::move(inputs), std::move(attrs),
                                                  Phase::kBackward, node_.id));
    return backward_.graph_.node(id).outputs;
  }

  void SetGrad(size_t input, ValueId value) override {
    EBB_CHECK(input < node_.inputs.size() && !given_[input] && value.valid());
    given_[input] = true;
    if (!needs(input)) return;
    const ValueId of = node_.inputs[input];
    const TensorType& is = backward_.graph_.value(value).type;
    const TensorType& wanted = backward_.graph_.value(of).type;
    if (is != wanted) {
      error_ = absl::InternalError(absl::StrCat("the gradient of input ", input, " is ",
                                                ToString(is), ", the input ", ToString(wanted)));
    }
    backward_.shares_[of.index()].push_back({node_.id, input, value});
  }

  const absl::Status& error() const { return error_; }

 private:
  std::string Name() const { return absl::StrCat("grad/", node_.name); }

  Backward& backward_;
  const Node& node_;
  std::vector<bool> given_;
  absl::Status error_;
  mutable std::map<ValueId, TensorType> types_;
};

absl::Status Backward::DifferentiateNode(const Node& node) {
  const bool arrives = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId output) {
    return gradient_[output.index()].valid();
  });
  if (!arrives) return absl::OkStatus();
  if (node.op->gradient == nullptr) {
    return absl::UnimplementedError(
        "the op is not differentiable, and the loss depends on trained values through it; freeze "
        "the parameters before it or take the node out of the model");
  }
  Context context(*this, node);
  EBB_RETURN_IF_ERROR(node.op->gradient(context));
  return context.error();
}

}  // namespace

absl::StatusOr<std::vector<ValueId>> AppendBackward(Graph& graph, ValueId loss,
                                                    const std::vector<bool>& wanted,
                                                    const OnGradient& on_gradient) {
  const Value& value = graph.value(loss);
  if (!IsFloat(value.type.dtype) || NumElements(value.type.shape) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("the loss '", value.name, "' is ",
                                                   ToString(value.type),
                                                   ", it must be one floating-point number"));
  }
  return Backward(graph, wanted, on_gradient).Run(loss);
}

absl::StatusOr<Gradients> Differentiate(Graph forward, ValueId loss,
                                        const std::vector<ValueId>& wrt) {
  std::vector<bool> wanted(forward.values.size());
  for (ValueId value : wrt) wanted[value.index()] = true;
  Gradients result{std::move(forward), {}};
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> gradients,
                       AppendBackward(result.graph, loss, wanted,
                                      [](ValueId, ValueId, NodeId) { return absl::OkStatus(); }));
  result.graph.outputs.clear();
  for (ValueId value : wrt) {
    const ValueId gradient = gradients[value.index()];
    result.grads.push_back(gradient);
    std::vector<ValueId>& outputs = result.graph.outputs;
    if (gradient.valid() && std::find(outputs.begin(), outputs.end(), gradient) == outputs.end()) {
      outputs.push_back(gradient);
    }
  }
  return result;
}

}  // namespace ebb::graph
