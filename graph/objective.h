// What is trained and what is measured: a forward graph with its loss and metrics. Private to
// graph; pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

// The outputs that the loss and the metrics read.
struct Roots {
  ValueId loss;
  std::vector<ValueId> metrics;  // of FindMetricOutputs

  std::vector<ValueId> All() const;
};
// InvalidArgument: no forward graph, or options that do not fit it.
absl::StatusOr<Roots> CheckForward(const Graph& forward, const TrainingOptions& options);

struct Objective {
  Graph graph;   // live forward nodes, then phase loss: the loss and the metrics
  ValueId loss;  // of "metric/loss" or what that copies
};
absl::StatusOr<Objective> AddObjective(const Graph& forward, const TrainingOptions& options);

}  // namespace ebb::graph
