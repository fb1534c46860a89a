#include "graph/metrics.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "graph/loss.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status CheckMetric(const LossSpec& loss, const MetricSpec& metric) {
  const auto needs = [&](bool fits, absl::string_view what) {
    return fits ? absl::OkStatus()
                : Invalid(absl::StrCat("metric '", Name(metric), "' needs ", what, "; the loss is ",
                                       Name(loss.kind), ": remove the metric"));
  };
  const bool by_class = IsByClass(loss.kind), binary = loss.kind == LossKind::kBceWithLogits;
  const bool own = loss.kind == LossKind::kGraphOutput;
  switch (metric.kind) {
    case MetricKind::kLoss:
      return absl::OkStatus();
    case MetricKind::kAccuracy:
    case MetricKind::kLogLoss:
    case MetricKind::kAuc:
      return needs(by_class || binary, "a cross entropy or binary cross entropy loss");
    case MetricKind::kTopK:
      if (metric.k < 1)
        return Invalid(absl::StrCat("top-k needs k >= 1, not ", metric.k, "; give a k from 1 on"));
      return needs(by_class, "a cross entropy loss");
    case MetricKind::kMacroF1:
      return needs(by_class, "a cross entropy loss");
    case MetricKind::kMse:
      return needs(!by_class && !binary && !own, "a loss by the distance to a target, such as mse");
    case MetricKind::kPerplexity:
      return needs(by_class || own, "a cross entropy loss, or one of the graph's own");
    case MetricKind::kOutput:
      return metric.output.empty() ? Invalid("metric 'output:' needs the name of a graph output")
                                   : absl::OkStatus();
  }
  return Invalid("unknown metric");
}

class Adder {
 public:
  Adder(Graph& graph, const LossSpec& loss, const Measured& measured)
      : graph_(graph), loss_(loss), measured_(measured) {}

  // e to the mean is left to who reads it.
  absl::Status AddLogLoss(const std::string& name) {
    if (loss_.kind == LossKind::kGraphOutput) return AddMean(name, measured_.loss);
    if (loss_.kind == LossKind::kBceWithLogits) return AddOfTarget("BceSum", name);
    Attrs attrs = {{"ignore_index", loss_.ignore_index}};
    if (loss_.kind == LossKind::kNll) attrs.Set("log_prob", int64_t{1});
    return AddOfTarget("CrossEntropySum", name, std::move(attrs));
  }

  absl::Status AddCorrect(const std::string& name, int64_t k) {
    if (loss_.kind == LossKind::kBceWithLogits) return AddOfTarget("BinaryCorrect", name);
    const int64_t classes = graph_.value(measured_.output).type.shape[1];
    if (k > classes) {
      return Invalid(absl::StrCat("metrics: '", name, "' asks for the ", k, " best of '",
                                  graph_.value(measured_.output).name, "', which has ", classes,
                                  " classes; give a k below ", classes, ", or remove it"));
    }
    return AddOfTarget("TopKCorrect", name, {{"k", k}, {"ignore_index", loss_.ignore_index}});
  }

  absl::Status AddOfTarget(absl::string_view op, const std::string& name, Attrs attrs = {}) {
    return AddSums(graph_, op, name, Operands(), std::move(attrs));
  }

  // Of all elements in the rows that count, where it has as many rows as the batch.
  absl::Status AddMean(const std::string& name, ValueId value) {
    const TensorType& type = graph_.value(value).type;
    if (!IsFloat(type.dtype)) {
      return Invalid(absl::StrCat("metric '", name, "' is ", ToString(type),
                                  ", not floating-point numbers; name another output"));
    }
    std::vector<ValueId> inputs = {value};
    if (measured_.valid.valid()) inputs.push_back(measured_.valid);
    return AddSums(graph_, "RowsSum", name, std::move(inputs));
  }

  absl::Status AddCounts() {
    EBB_ASSIGN_OR_RETURN(const ValueId counts,
                         graph_.Add("ClassCounts", "metric/macro_f1", Operands(),
                                    {{"ignore_index", loss_.ignore_index}}, Phase::kLoss));
    return Expose(graph_, counts, "metric/macro_f1.counts");
  }

  absl::Status AddScores() {
    const TensorType& type = graph_.value(measured_.output).type;
    const auto add = [&](absl::string_view op, std::vector<ValueId> inputs, Attrs attrs = {}) {
      return graph_.Add(op, "metric/auc", std::move(inputs), std::move(attrs), Phase::kLoss);
    };
    ValueId scores, targets;
    if (loss_.kind == LossKind::kBceWithLogits) {
      if (type.shape.empty() || NumElements(type.shape) != type.shape[0]) {
        return Invalid(absl::StrCat("metric 'auc' needs one score a row; '",
                                    graph_.value(measured_.output).name, "' is ", ToString(type),
                                    ": remove the metric"));
      }
      EBB_ASSIGN_OR_RETURN(scores, add("Scale", {measured_.output}));
      EBB_ASSIGN_OR_RETURN(targets, add("Scale", {measured_.target}));
    } else {
      if (type.shape[1] != 2) {
        return Invalid(absl::StrCat("metric 'auc' needs two classes; '",
                                    graph_.value(measured_.output).name, "' is ", ToString(type),
                                    ": remove the metric"));
      }
      const auto class_scores = [&](int64_t c) {
        using Ints = std::vector<int64_t>;
        return add(
            "Slice", {measured_.output},
            {{"axes", Ints{1}}, {"starts", Ints{c}}, {"ends", Ints{c + 1}}, {"steps", Ints{1}}});
      };
      EBB_ASSIGN_OR_RETURN(const ValueId negative, class_scores(0));
      EBB_ASSIGN_OR_RETURN(const ValueId positive, class_scores(1));
      EBB_ASSIGN_OR_RETURN(scores, add("Sub", {positive, negative}));
      EBB_ASSIGN_OR_RETURN(
          targets, add("Cast", {measured_.target}, {{"to", std::string(Name(type.dtype))}}));
    }
    EBB_RETURN_IF_ERROR(Expose(graph_, scores, "metric/auc.scores"));
    return Expose(graph_, targets, "metric/auc.targets");
  }

 private:
  std::vector<ValueId> Operands() const {
    std::vector<ValueId> inputs = {measured_.output, measured_.target};
    if (measured_.valid.valid()) inputs.push_back(measured_.valid);
    return inputs;
  }

  Graph& graph_;
  const LossSpec& loss_;
  const Measured& measured_;
};

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
    case MetricKind::kMacroF1:
      return "macro_f1";
    case MetricKind::kPerplexity:
      return "perplexity";
    case MetricKind::kAuc:
      return "auc";
    case MetricKind::kLogLoss:
      return "logloss";
    case MetricKind::kOutput:
      return absl::StrCat("output:", metric.output);
  }
  return "?";
}

absl::Status CheckMetrics(const LossSpec& loss, const std::vector<MetricSpec>& metrics) {
  absl::flat_hash_set<std::string> named;
  for (const MetricSpec& metric : metrics) {
    EBB_RETURN_IF_ERROR(CheckMetric(loss, metric));
    if (named.insert(Name(metric)).second) continue;
    return Invalid(absl::StrCat("metrics: '", Name(metric), "' is named twice; remove one"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ValueId>> FindMetricOutputs(const Graph& forward,
                                                       const std::vector<MetricSpec>& metrics) {
  std::vector<ValueId> outputs;
  for (const MetricSpec& metric : metrics) {
    if (metric.kind != MetricKind::kOutput) continue;
    const auto found =
        std::find_if(forward.outputs.begin(), forward.outputs.end(),
                     [&](ValueId output) { return forward.value(output).name == metric.output; });
    if (found == forward.outputs.end()) {
      return Invalid(
          absl::StrCat("metric '", Name(metric), "' is no output of the model; it has: ",
                       absl::StrJoin(forward.outputs, ", ", [&](std::string* out, ValueId output) {
                         absl::StrAppend(out, "'", forward.value(output).name, "'");
                       })));
    }
    outputs.push_back(*found);
  }
  return outputs;
}

absl::Status AddMetrics(Graph& graph, const TrainingOptions& options, const Measured& measured,
                        MetricScope scope) {
  Adder adder(graph, options.loss, measured);
  size_t named = 0;
  for (const MetricSpec& metric : options.metrics) {
    const std::string name = Name(metric);
    const ValueId output =
        metric.kind == MetricKind::kOutput ? measured.outputs[named++] : ValueId();
    switch (metric.kind) {
      case MetricKind::kLoss:
        break;
      case MetricKind::kAccuracy:
      case MetricKind::kTopK:
        EBB_RETURN_IF_ERROR(
            adder.AddCorrect(name, metric.kind == MetricKind::kTopK ? metric.k : 1));
        break;
      case MetricKind::kMse:
        EBB_RETURN_IF_ERROR(adder.AddOfTarget("MseSum", name));
        break;
      case MetricKind::kPerplexity:
      case MetricKind::kLogLoss:
        EBB_RETURN_IF_ERROR(adder.AddLogLoss(name));
        break;
      case MetricKind::kMacroF1:
        EBB_RETURN_IF_ERROR(adder.AddCounts());
        break;
      case MetricKind::kAuc:
        if (scope == MetricScope::kEvaluation) EBB_RETURN_IF_ERROR(adder.AddScores());
        break;
      case MetricKind::kOutput:
        EBB_RETURN_IF_ERROR(adder.AddMean(name, output));
        break;
    }
  }
  return absl::OkStatus();
}

}  // namespace ebb::graph
