// Micro-batches: a training graph that works through its batch in equal parts, one after another,
// and adds up their gradients, so that activations of one part are alive at a time. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

struct MicroBatchOptions {
  int64_t batch = 0;  // of the step
  int parts = 2;
};

// `part` is the forward graph bound at batch / parts. The inputs of the result have the whole batch
// and are cut along their first dimension. Execution order: per part its forward, loss, metric and
// backward nodes; a parameter's gradients are added as they become final, in place, and its update
// runs right after the last part's. All names of BuildTrainingGraph's inputs, residents and metrics
// are there; values within a part are named "micro<i>/...".
//
// The step is the one that BuildTrainingGraph makes of the whole batch but for the order in which
// sums are added (and for dropout, which draws other numbers, different ones for every part):
// losses that are means are weighed by the part's share; cross entropy and NLL by the labels that
// count, which are counted over the whole batch before the first part.
//
// InvalidArgument: fewer than 2 parts, a batch that they do not divide, an input whose first
// dimension is not the part's. Unimplemented names the node: an op that updates statistics of the
// batch (BatchNorm), or a loss that is no plain mean or sum. Whether samples see each other in
// other ways is for graph/separable.h to say.
absl::StatusOr<Graph> BuildMicroBatchedGraph(const Graph& part, const TrainingOptions& training,
                                             const MicroBatchOptions& options);

}  // namespace ebb::graph
