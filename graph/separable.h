// Do the samples of a batch go through a model each by itself? As far as shapes tell: the same
// model at two batches shows what grows with the batch. Pure.
#pragma once

#include "absl/status/status.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

// `whole` and `part` are one forward graph bound at a batch and at a `parts`-th of it. Every value
// that depends on an input must grow with the batch along exactly one dimension, but for a loss
// that the graph computes itself. So sums and products over the batch and similarities of its
// samples are found; a softmax along the batch is not.
// Unimplemented names the node at which samples meet, or that only one of the graphs has.
absl::Status CheckSeparable(const Graph& whole, const Graph& part, const TrainingOptions& training,
                            int parts);

}  // namespace ebb::graph
