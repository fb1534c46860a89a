// What a node must satisfy before it may join a graph: shared by Graph::AddNode and Verify.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::graph {

// The shape rule's answer for `node` (outputs ignored), after its arity, its inputs' ids and its
// attributes' kinds were checked, so that the rule itself may rely on them.
absl::StatusOr<std::vector<TensorType>> OutputTypes(const Graph& graph, const Node& node);

// Known dtype, no negative dimension, and a size that memory could hold.
absl::Status CheckType(const TensorType& type);

}  // namespace ebb::graph
