// Micro-batches: a training graph that works through its batch in equal parts, one after another,
// and adds up their gradients, so that activations of one part are alive at a time; and gradient
// accumulation, a step over several batches. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

struct MicroBatchOptions {
  int64_t batch = 0;  // of the step: of all its batches
  int parts = 2;      // of the step
  // Batches whose gradients are averaged to make one step, as in PyTorch with loss / accumulate: a
  // batch has its own loss, of which the step's is the mean, and its own statistics (BatchNorm).
  // Divides `parts`; where it is `parts`, no batch is cut and models may do anything within one.
  int accumulate = 1;
};

// `part` is the forward graph bound at batch / parts. The inputs of the result have the whole batch
// and are cut along their first dimension. Execution order: per part its forward, loss, metric and
// backward nodes; a parameter's gradients are added as they become final, in place, and its update
// runs right after the last part's. All names of BuildTrainingGraph's inputs, residents and metrics
// are there; values within a part are named "micro<i>/...".
//
// For one batch the step is the one that BuildTrainingGraph makes of it but for the order in which
// sums are added (and for dropout, which draws other numbers, different ones for every part):
// losses that are means are weighed by the part's share; cross entropy and NLL by the labels that
// count, which are counted over a whole batch before the first part.
//
// InvalidArgument: fewer than 2 parts, a batch that they do not divide, an input whose first
// dimension is not the part's. Where a batch is cut, Unimplemented names the node: an op that
// updates statistics of the batch (BatchNorm), or a loss that is no plain mean or sum. Whether
// samples see each other in other ways is for graph/separable.h to say.
absl::StatusOr<Graph> BuildMicroBatchedGraph(const Graph& part, const TrainingOptions& training,
                                             const MicroBatchOptions& options);

}  // namespace ebb::graph
