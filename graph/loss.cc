#include "graph/loss.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

Attrs LossAttrs(const LossSpec& spec) {
  if (!IsByClass(spec.kind)) return {};
  Attrs attrs = {{"ignore_index", spec.ignore_index}};
  if (spec.kind == LossKind::kCrossEntropy) attrs.Set("label_smoothing", spec.label_smoothing);
  return attrs;
}

ValueId AddNumbers(Graph& graph, const std::string& name, DType dtype,
                   const std::vector<double>& numbers) {
  const Shape shape = {static_cast<int64_t>(numbers.size())};
  if (dtype == DType::kF64) {
    return graph.AddConstant(name, HostTensor::Of<double>(dtype, shape, numbers));
  }
  const std::vector<float> singles(numbers.begin(), numbers.end());
  return graph.AddConstant(name, HostTensor::Of<float>(dtype, shape, singles));
}

// The weights of the classes as an operand; invalid where there are none.
absl::StatusOr<ValueId> AddClassWeights(Graph& graph, const LossSpec& spec, ValueId output) {
  if (spec.class_weights.empty()) return ValueId();
  const Value& value = graph.value(output);
  const auto classes = static_cast<size_t>(value.type.shape[1]);
  if (classes != spec.class_weights.size()) {
    return Invalid(absl::StrCat("the loss has ", spec.class_weights.size(), " class weights; '",
                                value.name, "' is ", ToString(value.type), ", which is ", classes,
                                " classes; give one weight for each (loss.class_weights)"));
  }
  return AddNumbers(graph, "loss/class_weights", value.type.dtype, spec.class_weights);
}

// The type of the target that goes with an output: labels lack the output's class axis.
absl::StatusOr<TensorType> TargetType(LossKind kind, const Value& output) {
  if (!IsFloat(output.type.dtype)) {
    return Invalid(absl::StrCat("the loss reads '", output.name, "', which is ",
                                ToString(output.type),
                                ", not floating-point; name another output (loss.prediction)"));
  }
  if (!IsByClass(kind)) return output.type;
  if (output.type.shape.size() < 2) {
    const bool nll = kind == LossKind::kNll;
    return Invalid(absl::StrCat(
        nll ? "negative log-likelihood needs log-probabilities" : "cross entropy needs logits",
        " [N,C,...]; '", output.name, "' is ", ToString(output.type),
        "; name such an output (loss.prediction), or choose another loss"));
  }
  TensorType labels{DType::kI64, output.type.shape};
  labels.shape.erase(labels.shape.begin() + 1);
  return labels;
}

// A value may become a metric itself if a node makes its bytes and nothing else needs them.
bool CanBeMetric(const Graph& graph, const Value& value) {
  if (!value.producer.valid() || value.role != Role::kActivation) return false;
  const Node& producer = graph.node(value.producer);
  if (producer.op->is_view && producer.outputs[0] == value.id) return false;
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::find(node.inputs.begin(), node.inputs.end(), value.id) != node.inputs.end();
  });
}

absl::StatusOr<ValueId> ExposeGraphLoss(Graph& graph, ValueId output) {
  const Value& value = graph.value(output);
  if (!IsFloat(value.type.dtype) || NumElements(value.type.shape) != 1) {
    return Invalid(absl::StrCat(
        "the loss '", value.name, "' is ", ToString(value.type),
        ", it must be one floating-point number; name such an output (loss: output:NAME)"));
  }
  ValueId metric = output;
  if (!CanBeMetric(graph, value)) {
    EBB_ASSIGN_OR_RETURN(metric, graph.Add("Scale", "metric/loss", {output}, {}, Phase::kLoss));
  }
  EBB_RETURN_IF_ERROR(Expose(graph, metric, "metric/loss"));
  return output;
}

// (1 - t) x + (1 + (p - 1) t) softplus(-x), as
// torch.nn.functional.binary_cross_entropy_with_logits.
absl::StatusOr<ValueId> AddWeightedBinary(Graph& graph, const LossSpec& spec, ValueId output,
                                          ValueId target) {
  const auto add = [&](absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph.Add(op, "loss/elements", std::move(inputs), std::move(attrs), Phase::kLoss);
  };
  const TensorType type = graph.value(output).type;
  const auto last = type.shape.empty() ? size_t{1} : static_cast<size_t>(type.shape.back());
  if (spec.pos_weight.size() != 1 && spec.pos_weight.size() != last) {
    return Invalid(absl::StrCat("the loss has ", spec.pos_weight.size(), " pos_weight; '",
                                graph.value(output).name, "' is ", ToString(type), "; give 1 or ",
                                last));
  }
  std::vector<double> more = spec.pos_weight;
  for (double& weight : more) weight -= 1;
  const ValueId extra = AddNumbers(graph, "loss/pos_weight", type.dtype, more);
  EBB_ASSIGN_OR_RETURN(ValueId weight, add("Mul", {target, extra}));
  EBB_ASSIGN_OR_RETURN(weight, add("Scale", {weight}, {{"shift", 1.0}}));
  EBB_ASSIGN_OR_RETURN(ValueId positive, add("Scale", {output}, {{"scale", -1.0}}));
  EBB_ASSIGN_OR_RETURN(positive, add("Softplus", {positive}));
  EBB_ASSIGN_OR_RETURN(positive, add("Mul", {positive, weight}));
  EBB_ASSIGN_OR_RETURN(ValueId negative, add("Scale", {target}, {{"scale", -1.0}, {"shift", 1.0}}));
  EBB_ASSIGN_OR_RETURN(negative, add("Mul", {negative, output}));
  return add("Add", {negative, positive});
}

// What each element of output and target adds to the loss; invalid where one op makes the mean of
// them.
absl::StatusOr<ValueId> AddElements(Graph& graph, const LossSpec& spec, ValueId output,
                                    ValueId target) {
  const auto add = [&](absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph.Add(op, "loss/elements", std::move(inputs), std::move(attrs), Phase::kLoss);
  };
  if (spec.kind == LossKind::kBceWithLogits) {
    if (spec.pos_weight.empty()) return ValueId();
    return AddWeightedBinary(graph, spec, output, target);
  }
  const bool linear = spec.kind == LossKind::kL1;
  if (!linear && spec.kind != LossKind::kSmoothL1 && spec.kind != LossKind::kHuber) {
    return ValueId();
  }
  EBB_ASSIGN_OR_RETURN(const ValueId error, add("Sub", {output, target}));
  EBB_ASSIGN_OR_RETURN(const ValueId distance, add("Abs", {error}));
  if (linear) return distance;
  // min^2 / (2 beta) + (distance - min), where min = min(distance, beta): quadratic, then linear.
  EBB_ASSIGN_OR_RETURN(const ValueId least, add("Clip", {distance}, {{"max", spec.beta}}));
  EBB_ASSIGN_OR_RETURN(ValueId square, add("Mul", {least, least}));
  EBB_ASSIGN_OR_RETURN(square, add("Scale", {square}, {{"scale", 0.5 / spec.beta}}));
  EBB_ASSIGN_OR_RETURN(const ValueId rest, add("Sub", {distance, least}));
  EBB_ASSIGN_OR_RETURN(const ValueId smooth, add("Add", {square, rest}));
  if (spec.kind == LossKind::kSmoothL1) return smooth;
  return add("Scale", {smooth}, {{"scale", spec.beta}});
}

}  // namespace

absl::string_view Name(LossKind kind) {
  switch (kind) {
    case LossKind::kCrossEntropy:
      return "cross entropy";
    case LossKind::kNll:
      return "negative log-likelihood";
    case LossKind::kMse:
      return "mean squared error";
    case LossKind::kL1:
      return "mean absolute error";
    case LossKind::kSmoothL1:
      return "smooth L1";
    case LossKind::kHuber:
      return "Huber";
    case LossKind::kBceWithLogits:
      return "binary cross entropy";
    case LossKind::kGraphOutput:
      return "graph output";
  }
  return "?";
}

absl::Status Expose(Graph& graph, ValueId value, const std::string& name) {
  if (const ValueId other = graph.Find(name); other.valid() && other != value) {
    return Invalid(absl::StrCat("the model has a value '", name,
                                "'; names that begin with 'metric/' are reserved: rename it"));
  }
  graph.Rename(value, name);
  graph.value(value).role = Role::kMetric;
  return absl::OkStatus();
}

absl::Status AddSums(Graph& graph, absl::string_view op, const std::string& name,
                     std::vector<ValueId> inputs, Attrs attrs) {
  const std::string prefix = absl::StrCat("metric/", name);
  EBB_ASSIGN_OR_RETURN(const NodeId id, graph.AddNode(op, prefix, std::move(inputs),
                                                      std::move(attrs), Phase::kLoss));
  const std::vector<ValueId> outputs = graph.node(id).outputs;
  EBB_RETURN_IF_ERROR(Expose(graph, outputs[0], absl::StrCat(prefix, ".sum")));
  return Expose(graph, outputs[1], absl::StrCat(prefix, ".count"));
}

absl::Status CheckLoss(const LossSpec& loss) {
  if (!(loss.label_smoothing >= 0 && loss.label_smoothing <= 1)) {
    return Invalid(absl::StrCat("label_smoothing ", loss.label_smoothing,
                                " is not in [0,1]; give a number that is"));
  }
  const auto needs = [&](absl::string_view what, absl::string_view kind) {
    return Invalid(absl::StrCat(what, " needs a ", kind, " loss; the loss is ", Name(loss.kind),
                                ": remove it"));
  };
  if (loss.label_smoothing != 0 && loss.kind != LossKind::kCrossEntropy) {
    return needs("label_smoothing", "cross entropy");
  }
  if (!loss.class_weights.empty() && !IsByClass(loss.kind)) {
    return needs("class_weights", "cross entropy");
  }
  if (!loss.pos_weight.empty() && loss.kind != LossKind::kBceWithLogits) {
    return needs("pos_weight", "binary cross entropy");
  }
  for (const std::vector<double>* weights : {&loss.class_weights, &loss.pos_weight}) {
    for (const double weight : *weights) {
      if (weight >= 0 && weight <= std::numeric_limits<float>::max()) continue;
      return Invalid(absl::StrCat("a weight of the loss is ", weight,
                                  "; it must be a finite number of 0 or more"));
    }
  }
  if (loss.beta > 0 && loss.beta <= std::numeric_limits<float>::max()) return absl::OkStatus();
  return Invalid(absl::StrCat("the loss becomes linear at ", loss.beta,
                              "; it must be a finite number above 0"));
}

absl::StatusOr<ValueId> FindLossOutput(const Graph& forward, const LossSpec& spec) {
  if (spec.output.empty() && forward.outputs.size() == 1) return forward.outputs[0];
  for (ValueId output : forward.outputs) {
    if (forward.value(output).name == spec.output) return output;
  }
  const std::string outputs =
      absl::StrJoin(forward.outputs, ", ", [&](std::string* out, ValueId output) {
        absl::StrAppend(out, "'", forward.value(output).name, "'");
      });
  return Invalid(spec.output.empty()
                     ? absl::StrCat("the model has ", forward.outputs.size(),
                                    " outputs; say which one the loss reads: ", outputs,
                                    " (in a job: loss.prediction)")
                     : absl::StrCat("the loss reads '", spec.output,
                                    "', which is no output of the model; it has: ", outputs));
}

absl::StatusOr<ValueId> AddTarget(Graph& graph, const LossSpec& spec, ValueId output) {
  if (spec.kind == LossKind::kGraphOutput) return ValueId();
  if (spec.target.empty())
    return Invalid("the loss needs the name of its target field; give loss.target");
  EBB_ASSIGN_OR_RETURN(TensorType type, TargetType(spec.kind, graph.value(output)));
  const ValueId found = graph.Find(spec.target);
  if (!found.valid()) return graph.AddValue(spec.target, std::move(type), Role::kInput);
  const Value& value = graph.value(found);
  TensorType other = type;  // labels may be i32 too
  if (IsByClass(spec.kind)) other.dtype = DType::kI32;
  if (value.role != Role::kInput || (value.type != type && value.type != other)) {
    return Invalid(absl::StrCat("the target '", spec.target, "' must be an input ", ToString(type),
                                "; the model has a ", Name(value.role), " ", ToString(value.type),
                                " of that name; give loss.target another name"));
  }
  return found;
}

absl::StatusOr<ValueId> AddLoss(Graph& graph, const LossSpec& spec, ValueId output,
                                ValueId target) {
  if (spec.kind == LossKind::kGraphOutput) return ExposeGraphLoss(graph, output);
  EBB_ASSIGN_OR_RETURN(const ValueId elements, AddElements(graph, spec, output, target));
  ValueId loss;
  if (elements.valid()) {
    std::vector<int64_t> axes(graph.value(elements).type.shape.size());
    std::iota(axes.begin(), axes.end(), 0);
    EBB_ASSIGN_OR_RETURN(
        loss, graph.Add("ReduceMean", "loss", {elements},
                        {{"axes", std::move(axes)}, {"keepdims", int64_t{0}}}, Phase::kLoss));
  } else {
    absl::string_view op = "CrossEntropy";
    if (spec.kind == LossKind::kNll) op = "NllLoss";
    if (spec.kind == LossKind::kMse) op = "MseLoss";
    if (spec.kind == LossKind::kBceWithLogits) op = "BceWithLogits";
    std::vector<ValueId> inputs = {output, target};
    if (IsByClass(spec.kind)) {
      EBB_ASSIGN_OR_RETURN(const ValueId weights, AddClassWeights(graph, spec, output));
      if (weights.valid()) inputs.push_back(weights);
    }
    EBB_ASSIGN_OR_RETURN(const NodeId id, graph.AddNode(op, "loss", std::move(inputs),
                                                        LossAttrs(spec), Phase::kLoss));
    loss = graph.node(id).outputs[0];
  }
  EBB_RETURN_IF_ERROR(Expose(graph, loss, "metric/loss"));
  return loss;
}

absl::Status AddEvalLoss(Graph& graph, const LossSpec& spec, ValueId output, ValueId target,
                         ValueId valid) {
  if (spec.kind == LossKind::kGraphOutput) return ExposeGraphLoss(graph, output).status();
  EBB_ASSIGN_OR_RETURN(const ValueId elements, AddElements(graph, spec, output, target));
  if (elements.valid()) return AddSums(graph, "RowsSum", "loss", {elements, valid});
  std::vector<ValueId> inputs = {output, target, valid};
  Attrs attrs = LossAttrs(spec);
  absl::string_view op = "CrossEntropySum";
  if (spec.kind == LossKind::kMse) op = "MseSum";
  if (spec.kind == LossKind::kBceWithLogits) op = "BceSum";
  if (spec.kind == LossKind::kNll) attrs.Set("log_prob", int64_t{1});
  if (IsByClass(spec.kind)) {
    EBB_ASSIGN_OR_RETURN(const ValueId weights, AddClassWeights(graph, spec, output));
    if (weights.valid()) inputs.push_back(weights);
  }
  return AddSums(graph, op, "loss", std::move(inputs), std::move(attrs));
}

}  // namespace ebb::graph
