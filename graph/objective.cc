#include "graph/objective.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/loss.h"
#include "graph/rewrite.h"

namespace ebb::graph {
namespace {

absl::StatusOr<GraphCopy> CopyLive(const Graph& forward, ValueId root) {
  const std::vector<bool> live = LiveNodes(forward, {root});
  GraphCopy copy = CopyLeaves(forward, live);
  for (const Node& node : forward.nodes) {
    if (live[node.id.index()]) EBB_RETURN_IF_ERROR(CopyNode(forward, node, copy));
  }
  return copy;
}

}  // namespace

absl::StatusOr<ValueId> CheckForward(const Graph& forward, const TrainingOptions& options) {
  EBB_RETURN_IF_ERROR(Verify(forward));
  for (const Node& node : forward.nodes) {
    if (node.phase == Phase::kForward) continue;
    return absl::InvalidArgumentError(absl::StrCat("node '", node.name, "' is a ", Name(node.phase),
                                                   " node; a forward graph has none"));
  }
  EBB_RETURN_IF_ERROR(CheckOptions(options.loss, options.metrics));
  return FindLossOutput(forward, options.loss);
}

absl::StatusOr<Objective> AddObjective(const Graph& forward, const TrainingOptions& options) {
  EBB_ASSIGN_OR_RETURN(const ValueId root, CheckForward(forward, options));
  EBB_ASSIGN_OR_RETURN(GraphCopy copy, CopyLive(forward, root));
  Graph& graph = copy.graph;
  const ValueId output = copy.map[root.index()];
  if (!output.valid()) {
    return absl::InvalidArgumentError(absl::StrCat("the loss reads '", forward.value(root).name,
                                                   "', a constant of the model; nothing can train "
                                                   "that"));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId target, AddTarget(graph, options.loss, output));
  EBB_ASSIGN_OR_RETURN(const ValueId loss, AddLoss(graph, options.loss, output, target));
  EBB_RETURN_IF_ERROR(AddMetrics(graph, options, output, target, ValueId()));
  return Objective{std::move(copy.graph), loss};
}

}  // namespace ebb::graph
