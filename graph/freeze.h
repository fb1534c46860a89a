// Batch norms of chosen layers with the statistics that the model came with. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::graph {

// `forward` with each BatchNorm that a glob names as a BatchNormInference: it normalises by its
// running statistics, which nothing updates; its scale and bias are trained as before. A glob is
// held against the node's name, the names of its scale and running mean, and those up to their last
// dot ("layer1.0.bn1"). InvalidArgument: a glob that names no batch norm, with some that there are.
absl::StatusOr<Graph> FreezeStatistics(const Graph& forward, const std::vector<std::string>& globs);

}  // namespace ebb::graph
