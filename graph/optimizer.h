// Which parameter is trained how, and the update nodes that do it.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

// Per value: the specification of its optimizer; null for frozen parameters and for all other
// values. Points into `options`. InvalidArgument: a value out of range, or a group without
// parameters.
absl::StatusOr<std::vector<const OptimizerSpec*>> AssignOptimizers(const Graph& graph,
                                                                   const TrainingOptions& options);

// "ebb.hyper", added if it is not there yet.
absl::StatusOr<ValueId> HyperValue(Graph& graph);

// Appends the update of `param` by `gradient`, with the slots that it needs.
absl::Status AddUpdate(Graph& graph, const OptimizerSpec& spec, ValueId param, ValueId gradient,
                       ValueId hyper, NodeId mirror);

}  // namespace ebb::graph
