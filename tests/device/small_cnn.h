// A small convolutional network with everything that the channels-last pass has to get right:
// batch norm, pooling, a residual sum, a concatenation, squeeze and excitation, flatten, gemm.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::testing {

enum class GraphUse { kTraining, kEvaluation };
// `width`: channels of the trunk. Input "image" f32[batch,3,12,12], labels "label" i64[batch].
absl::StatusOr<graph::Graph> SmallCnn(int64_t batch, int64_t width, GraphUse use);

// Reproducible contents for every input, resident and scalar of the graph.
graph::TensorMap SmallCnnFeeds(const graph::Graph& graph, uint64_t seed);

}  // namespace ebb::testing
