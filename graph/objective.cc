#include "graph/objective.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/loss.h"
#include "graph/metrics.h"
#include "graph/optimizer.h"
#include "graph/rewrite.h"

namespace ebb::graph {
namespace {

absl::StatusOr<GraphCopy> CopyLive(const Graph& forward, const std::vector<ValueId>& roots) {
  const std::vector<bool> live = LiveNodes(forward, roots);
  GraphCopy copy = CopyLeaves(forward, live);
  for (const Node& node : forward.nodes) {
    if (live[node.id.index()]) EBB_RETURN_IF_ERROR(CopyNode(forward, node, copy));
  }
  return copy;
}

}  // namespace

std::vector<ValueId> Roots::All() const {
  std::vector<ValueId> all = metrics;
  all.push_back(loss);
  return all;
}

absl::StatusOr<Roots> CheckForward(const Graph& forward, const TrainingOptions& options) {
  EBB_RETURN_IF_ERROR(Verify(forward));
  for (const Node& node : forward.nodes) {
    if (node.phase == Phase::kForward) continue;
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' is a ", Name(node.phase),
                                                   " node; a forward graph has none"));
  }
  EBB_RETURN_IF_ERROR(CheckLoss(options.loss));
  EBB_RETURN_IF_ERROR(CheckMetrics(options.loss, options.metrics));
  Roots roots;
  EBB_ASSIGN_OR_RETURN(roots.loss, FindLossOutput(forward, options.loss));
  EBB_ASSIGN_OR_RETURN(roots.metrics, FindMetricOutputs(forward, options.metrics));
  return roots;
}

absl::StatusOr<Objective> AddObjective(const Graph& forward, const TrainingOptions& options) {
  EBB_ASSIGN_OR_RETURN(const Roots roots, CheckForward(forward, options));
  EBB_RETURN_IF_ERROR(CheckLookedUp(forward, options));
  const ValueId root = roots.loss;
  EBB_ASSIGN_OR_RETURN(GraphCopy copy, CopyLive(forward, roots.All()));
  Graph& graph = copy.graph;
  const ValueId output = copy.map[root.index()];
  if (!output.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("the loss reads '", forward.value(root).name,
                                                   "', a constant of the model; nothing can train "
                                                   "that"));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId target, AddTarget(graph, options.loss, output));
  EBB_ASSIGN_OR_RETURN(const ValueId loss, AddLoss(graph, options.loss, output, target));
  Measured measured{.output = output, .target = target, .loss = loss};
  for (const ValueId metric : roots.metrics) {
    measured.outputs.push_back(copy.map[metric.index()]);
    if (measured.outputs.back().valid()) continue;
    return absl::InvalidArgumentError(absl::StrCat("metric 'output:", forward.value(metric).name,
                                                   "' is a constant of the model"));
  }
  EBB_RETURN_IF_ERROR(AddMetrics(graph, options, measured, MetricScope::kTraining));
  return Objective{std::move(copy.graph), loss};
}

}  // namespace ebb::graph
