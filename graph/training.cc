#include "graph/training.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "graph/autodiff.h"
#include "graph/loss.h"
#include "graph/metrics.h"
#include "graph/objective.h"
#include "graph/op.h"
#include "graph/optimizer.h"
#include "graph/rewrite.h"

namespace ebb::graph {
namespace {

absl::Status Invalid(absl::string_view what) { return absl::InvalidArgumentError(what); }

// y = BatchNorm(x, ...) by its running statistics.
absl::Status CopyAsInference(const Graph& forward, const Node& node, GraphCopy& copy) {
  EBB_ASSIGN_OR_RETURN(
      const ValueId y,
      copy.graph.Add("BatchNormInference", node.name, Mapped(copy, node.inputs),
                     {{"epsilon", node.attrs.Float("epsilon", 1e-5)}}, Phase::kForward));
  const ValueId source = node.outputs[0];
  copy.graph.Rename(y, forward.value(source).name);
  copy.map[source.index()] = y;
  return absl::OkStatus();
}

// The forward graph with the semantics of evaluation; `roots` are copied whatever they are.
absl::StatusOr<GraphCopy> CopyForEval(const Graph& forward, const std::vector<ValueId>& roots) {
  const std::vector<bool> live = LiveNodes(forward, roots);
  std::vector<bool> copied = live;
  for (const Node& node : forward.nodes) {
    if (node.op->name == "Dropout") copied[node.id.index()] = false;
  }
  GraphCopy copy = CopyLeaves(forward, copied);
  for (const Node& node : forward.nodes) {
    if (!live[node.id.index()]) continue;
    for (ValueId input : node.inputs) {
      if (!input.valid() || copy.map[input.index()].valid()) continue;
      // A constant that only a dropped node reads has no copy either, but nobody asks for it here.
      if (node.op->name == "Dropout") continue;
      return Invalid(absl::StrCat("node '", node.name, "' reads '", forward.value(input).name,
                                  "', which does not exist in evaluation"));
    }
    if (node.op->name == "BatchNorm") {
      EBB_RETURN_IF_ERROR(CopyAsInference(forward, node, copy));
    } else if (node.op->name == "Dropout") {
      copy.map[node.outputs[0].index()] = copy.map[node.inputs[0].index()];
    } else {
      EBB_RETURN_IF_ERROR(CopyNode(forward, node, copy));
    }
  }
  return copy;
}

absl::StatusOr<ValueId> AddValid(Graph& graph) {
  if (graph.Find("ebb.valid").valid()) {
    return Invalid("the model has a value 'ebb.valid', which is reserved; rename it");
  }
  return graph.AddValue("ebb.valid", {DType::kI64, {1}}, Role::kInput);
}

// Backward pass and updates.
absl::Status AddTraining(Graph& graph, const TrainingOptions& options, ValueId loss) {
  EBB_ASSIGN_OR_RETURN(Updates updates, Updates::Create(&graph, options));
  EBB_RETURN_IF_ERROR(AppendBackward(graph, loss, updates.Trained(),
                                     [&](ValueId param, ValueId gradient, NodeId mirror) {
                                       return updates.Add(param, gradient, mirror);
                                     })
                          .status());
  return updates.Finish();
}

}  // namespace

absl::StatusOr<Graph> BuildTrainingGraph(const Graph& forward, const TrainingOptions& options) {
  EBB_ASSIGN_OR_RETURN(Objective objective, AddObjective(forward, options));
  EBB_RETURN_IF_ERROR(AddTraining(objective.graph, options, objective.loss));
  return std::move(objective.graph);
}

namespace {

// The copies of what the options read.
absl::StatusOr<Measured> MeasuredInEval(const Graph& forward, const TrainingOptions& options,
                                        const Roots& roots, GraphCopy& copy) {
  const auto find = [&](ValueId id, absl::string_view who) -> absl::StatusOr<ValueId> {
    if (copy.map[id.index()].valid()) return copy.map[id.index()];
    return Invalid(absl::StrCat("the ", who, " reads '", forward.value(id).name,
                                "', which does not exist in evaluation"));
  };
  Measured measured;
  EBB_ASSIGN_OR_RETURN(measured.output, find(roots.loss, "loss"));
  for (const ValueId metric : roots.metrics) {
    EBB_ASSIGN_OR_RETURN(const ValueId output, find(metric, "metric"));
    measured.outputs.push_back(output);
  }
  EBB_ASSIGN_OR_RETURN(measured.target, AddTarget(copy.graph, options.loss, measured.output));
  measured.loss = measured.output;  // of the graph's own loss
  if (!measured.target.valid()) return measured;
  const int64_t rows = copy.graph.value(measured.target).type.shape[0];
  const bool by_rows =
      std::all_of(measured.outputs.begin(), measured.outputs.end(), [&](ValueId output) {
        const Shape& shape = copy.graph.value(output).type.shape;
        return !shape.empty() && shape[0] == rows;
      });
  if (by_rows) {
    EBB_ASSIGN_OR_RETURN(measured.valid, AddValid(copy.graph));
  }
  return measured;
}

}  // namespace

absl::StatusOr<Graph> BuildEvalGraph(const Graph& forward, const TrainingOptions& options) {
  EBB_ASSIGN_OR_RETURN(const Roots roots, CheckForward(forward, options));
  EBB_ASSIGN_OR_RETURN(GraphCopy copy, CopyForEval(forward, roots.All()));
  EBB_ASSIGN_OR_RETURN(const Measured measured, MeasuredInEval(forward, options, roots, copy));
  EBB_RETURN_IF_ERROR(
      AddEvalLoss(copy.graph, options.loss, measured.output, measured.target, measured.valid));
  EBB_RETURN_IF_ERROR(AddMetrics(copy.graph, options, measured, MetricScope::kEvaluation));
  return std::move(copy.graph);
}

namespace {

std::string OutputsOf(const Graph& forward) {
  return absl::StrJoin(forward.outputs, ", ", [&](std::string* out, ValueId output) {
    absl::StrAppend(out, "'", forward.value(output).name, "'");
  });
}

absl::StatusOr<std::vector<ValueId>> FindOutputs(const Graph& forward,
                                                 const std::vector<std::string>& names) {
  if (names.empty()) return forward.outputs;
  std::vector<ValueId> found;
  for (const std::string& name : names) {
    const auto it =
        std::find_if(forward.outputs.begin(), forward.outputs.end(),
                     [&](ValueId output) { return forward.value(output).name == name; });
    if (it == forward.outputs.end()) {
      return Invalid(
          absl::StrCat("'", name, "' is no output of the model; it has: ", OutputsOf(forward)));
    }
    if (std::find(found.begin(), found.end(), *it) != found.end()) {
      return Invalid(absl::StrCat("'", name, "' is named twice; remove one"));
    }
    found.push_back(*it);
  }
  return found;
}

// The first dimension of the inputs that reach an output.
absl::StatusOr<int64_t> RowsOf(const Graph& graph) {
  for (const Value& value : graph.values) {
    if (value.role == Role::kInput && !value.type.shape.empty()) return value.type.shape[0];
  }
  return Invalid("the outputs depend on no input of the model; name others");
}

}  // namespace

absl::StatusOr<Graph> BuildPredictionGraph(const Graph& forward,
                                           const std::vector<std::string>& outputs) {
  EBB_RETURN_IF_ERROR(Verify(forward));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> roots, FindOutputs(forward, outputs));
  EBB_ASSIGN_OR_RETURN(GraphCopy copy, CopyForEval(forward, roots));
  Graph& graph = copy.graph;
  EBB_ASSIGN_OR_RETURN(const int64_t rows, RowsOf(graph));
  for (const ValueId root : roots) {
    const std::string& name = forward.value(root).name;
    const ValueId output = copy.map[root.index()];
    if (!output.valid()) return Invalid(absl::StrCat("'", name, "' does not exist in evaluation"));
    const TensorType type = graph.value(output).type;
    if (type.shape.empty() || type.shape[0] != rows) {
      return Invalid(absl::StrCat("'", name, "' is ", ToString(type),
                                  ": it has no row for each of the ", rows,
                                  " of a batch; name outputs that have"));
    }
    const std::string metric = absl::StrCat("metric/", name);
    EBB_ASSIGN_OR_RETURN(
        const ValueId copied,
        graph.Add("Cast", metric, {output}, {{"to", std::string(Name(type.dtype))}}, Phase::kLoss));
    EBB_RETURN_IF_ERROR(Expose(graph, copied, metric));
  }
  return std::move(graph);
}

std::string AverageOf(const std::string& param) { return absl::StrCat(param, "/ema"); }

void ReadAverages(const Graph& training, Graph* eval) {
  std::vector<ValueId> reads(eval->values.size());
  const size_t count = reads.size();
  for (size_t v = 0; v < count; ++v) {
    const ValueId id(static_cast<int32_t>(v));
    reads[v] = id;
    const Value param = eval->value(id);
    const ValueId average = training.Find(AverageOf(param.name));
    if (param.role != Role::kParam || !average.valid()) continue;
    if (training.value(average).role != Role::kOptState) continue;
    reads[v] = eval->AddValue(AverageOf(param.name), param.type, Role::kOptState);
    eval->value(reads[v]).slot_of = id;
  }
  for (Node& node : eval->nodes) {
    for (ValueId& input : node.inputs) {
      if (input.valid()) input = reads[input.index()];
    }
  }
}

std::vector<std::string> ParamsWithoutGradient(const Graph& training) {
  std::vector<bool> written(training.values.size());
  for (const Node& node : training.nodes) {
    if (node.phase != Phase::kUpdate) continue;
    for (int mutated : node.op->mutates) {
      const auto i = static_cast<size_t>(mutated);
      if (i < node.inputs.size() && node.inputs[i].valid()) written[node.inputs[i].index()] = true;
    }
  }
  std::vector<std::string> names;
  for (const Value& value : training.values) {
    if (value.role == Role::kParam && !written[value.id.index()]) names.push_back(value.name);
  }
  return names;
}

}  // namespace ebb::graph
