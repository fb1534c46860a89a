#include "graph/loss.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::string_view Name(LossKind kind) {
  switch (kind) {
    case LossKind::kCrossEntropy:
      return "cross entropy";
    case LossKind::kMse:
      return "mean squared error";
    case LossKind::kBceWithLogits:
      return "binary cross entropy";
    case LossKind::kGraphOutput:
      return "graph output";
  }
  return "?";
}

Attrs LossAttrs(const LossSpec& spec) {
  if (spec.kind != LossKind::kCrossEntropy) return {};
  return {{"ignore_index", spec.ignore_index}, {"label_smoothing", spec.label_smoothing}};
}

// The type of the target that goes with an output: labels lack the output's class axis.
absl::StatusOr<TensorType> TargetType(LossKind kind, const Value& output) {
  if (!IsFloat(output.type.dtype)) {
    return Invalid(absl::StrCat("the loss reads '", output.name, "', which is ",
                                ToString(output.type), ", not floating-point"));
  }
  if (kind != LossKind::kCrossEntropy) return output.type;
  if (output.type.shape.size() < 2) {
    return Invalid(absl::StrCat("cross entropy needs logits [N,C,...]; '", output.name, "' is ",
                                ToString(output.type)));
  }
  TensorType labels{DType::kI64, output.type.shape};
  labels.shape.erase(labels.shape.begin() + 1);
  return labels;
}

absl::Status Expose(Graph& graph, ValueId value, const std::string& name) {
  if (const ValueId other = graph.Find(name); other.valid() && other != value) {
    return Invalid(absl::StrCat("the model has a value '", name,
                                "'; names that begin with 'metric/' are reserved"));
  }
  graph.Rename(value, name);
  graph.value(value).role = Role::kMetric;
  return absl::OkStatus();
}

// A metric op of two outputs: sum and count.
absl::Status AddSums(Graph& graph, absl::string_view op, const std::string& name, ValueId output,
                     ValueId target, ValueId valid, Attrs attrs) {
  std::vector<ValueId> inputs = {output, target};
  if (valid.valid()) inputs.push_back(valid);
  const std::string prefix = absl::StrCat("metric/", name);
  EBB_ASSIGN_OR_RETURN(const NodeId id, graph.AddNode(op, prefix, std::move(inputs),
                                                      std::move(attrs), Phase::kLoss));
  const std::vector<ValueId> outputs = graph.node(id).outputs;
  EBB_RETURN_IF_ERROR(Expose(graph, outputs[0], absl::StrCat(prefix, ".sum")));
  return Expose(graph, outputs[1], absl::StrCat(prefix, ".count"));
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
    return Invalid(absl::StrCat("the loss '", value.name, "' is ", ToString(value.type),
                                ", it must be one floating-point number"));
  }
  ValueId metric = output;
  if (!CanBeMetric(graph, value)) {
    EBB_ASSIGN_OR_RETURN(metric, graph.Add("Scale", "metric/loss", {output}, {}, Phase::kLoss));
  }
  EBB_RETURN_IF_ERROR(Expose(graph, metric, "metric/loss"));
  return output;
}

absl::Status CheckMetric(const LossSpec& loss, const MetricSpec& metric) {
  const auto needs = [&](bool fits, absl::string_view what) {
    return fits ? absl::OkStatus()
                : Invalid(absl::StrCat("metric '", Name(metric), "' needs ", what, "; the loss is ",
                                       Name(loss.kind)));
  };
  switch (metric.kind) {
    case MetricKind::kLoss:
      return absl::OkStatus();
    case MetricKind::kAccuracy:
      return needs(loss.kind == LossKind::kCrossEntropy || loss.kind == LossKind::kBceWithLogits,
                   "a cross entropy or binary cross entropy loss");
    case MetricKind::kTopK:
      if (metric.k < 1) return Invalid(absl::StrCat("top-k needs k >= 1, not ", metric.k));
      return needs(loss.kind == LossKind::kCrossEntropy, "a cross entropy loss");
    case MetricKind::kMse:
      return needs(loss.kind == LossKind::kMse, "a mean squared error loss");
  }
  return Invalid("unknown metric");
}

}  // namespace

std::string Name(const MetricSpec& metric) {
  switch (metric.kind) {
    case MetricKind::kLoss:
      return "loss";
    case MetricKind::kAccuracy:
      return "accuracy";
    case MetricKind::kTopK:
      return absl::StrCat("top", metric.k);
    case MetricKind::kMse:
      return "mse";
  }
  return "?";
}

absl::Status CheckOptions(const LossSpec& loss, const std::vector<MetricSpec>& metrics) {
  if (!(loss.label_smoothing >= 0 && loss.label_smoothing <= 1)) {
    return Invalid(absl::StrCat("label_smoothing ", loss.label_smoothing, " is not in [0,1]"));
  }
  if (loss.label_smoothing != 0 && loss.kind != LossKind::kCrossEntropy) {
    return Invalid(
        absl::StrCat("label_smoothing needs a cross entropy loss; the loss is ", Name(loss.kind)));
  }
  for (const MetricSpec& metric : metrics) EBB_RETURN_IF_ERROR(CheckMetric(loss, metric));
  return absl::OkStatus();
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
  if (spec.target.empty()) return Invalid("the loss needs the name of its target field");
  EBB_ASSIGN_OR_RETURN(TensorType type, TargetType(spec.kind, graph.value(output)));
  const ValueId found = graph.Find(spec.target);
  if (!found.valid()) return graph.AddValue(spec.target, std::move(type), Role::kInput);
  const Value& value = graph.value(found);
  TensorType other = type;  // labels may be i32 too
  if (spec.kind == LossKind::kCrossEntropy) other.dtype = DType::kI32;
  if (value.role != Role::kInput || (value.type != type && value.type != other)) {
    return Invalid(absl::StrCat("the target '", spec.target, "' must be an input ", ToString(type),
                                "; the model has a ", Name(value.role), " ", ToString(value.type),
                                " of that name"));
  }
  return found;
}

absl::StatusOr<ValueId> AddLoss(Graph& graph, const LossSpec& spec, ValueId output,
                                ValueId target) {
  if (spec.kind == LossKind::kGraphOutput) return ExposeGraphLoss(graph, output);
  absl::string_view op;
  if (spec.kind == LossKind::kCrossEntropy) op = "CrossEntropy";
  if (spec.kind == LossKind::kMse) op = "MseLoss";
  if (spec.kind == LossKind::kBceWithLogits) op = "BceWithLogits";
  EBB_ASSIGN_OR_RETURN(const NodeId id,
                       graph.AddNode(op, "loss", {output, target}, LossAttrs(spec), Phase::kLoss));
  const ValueId loss = graph.node(id).outputs[0];
  EBB_RETURN_IF_ERROR(Expose(graph, loss, "metric/loss"));
  return loss;
}

absl::Status AddMetrics(Graph& graph, const TrainingOptions& options, ValueId output,
                        ValueId target, ValueId valid) {
  absl::flat_hash_set<std::string> done;
  for (const MetricSpec& metric : options.metrics) {
    const std::string name = Name(metric);
    if (metric.kind == MetricKind::kLoss || !done.insert(name).second) continue;
    absl::string_view op = "TopKCorrect";
    Attrs attrs;
    if (metric.kind == MetricKind::kMse) {
      op = "MseSum";
    } else if (options.loss.kind == LossKind::kBceWithLogits) {
      op = "BinaryCorrect";
    } else {
      const int64_t k = metric.kind == MetricKind::kTopK ? metric.k : 1;
      attrs = {{"k", k}, {"ignore_index", options.loss.ignore_index}};
    }
    EBB_RETURN_IF_ERROR(AddSums(graph, op, name, output, target, valid, std::move(attrs)));
  }
  return absl::OkStatus();
}

absl::Status AddEvalLoss(Graph& graph, const LossSpec& spec, ValueId output, ValueId target,
                         ValueId valid) {
  if (spec.kind == LossKind::kGraphOutput) return ExposeGraphLoss(graph, output).status();
  absl::string_view op;
  if (spec.kind == LossKind::kCrossEntropy) op = "CrossEntropySum";
  if (spec.kind == LossKind::kMse) op = "MseSum";
  if (spec.kind == LossKind::kBceWithLogits) op = "BceSum";
  return AddSums(graph, op, "loss", output, target, valid, LossAttrs(spec));
}

}  // namespace ebb::graph
