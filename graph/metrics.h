// Metrics: what training and evaluation graphs measure beside the loss, as values that whoever runs
// the graph adds up over steps.
//
//   metric/<name>.sum, metric/<name>.count   f32: their quotient is the mean; perplexity is e to it
//   metric/macro_f1.counts                   f32[3,C]: true positives, false ones, false negatives
//   metric/auc.scores, metric/auc.targets    of every row: more speaks for the positive class; its
//                                            target, which is positive from 0.5 on and does not
//                                            count below 0
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

// Contradictions between loss and metrics, or values out of range: InvalidArgument.
absl::Status CheckMetrics(const LossSpec& loss, const std::vector<MetricSpec>& metrics);

// The outputs of the forward graph that metrics name. InvalidArgument lists what there is.
absl::StatusOr<std::vector<ValueId>> FindMetricOutputs(const Graph& forward,
                                                       const std::vector<MetricSpec>& metrics);

// What metrics are made of. `valid`, the number of rows that count, may be absent.
struct Measured {
  ValueId output, target, valid;  // the loss's
  ValueId loss;
  std::vector<ValueId> outputs;  // of FindMetricOutputs, in the order of the metrics that name them
};
enum class MetricScope { kTraining, kEvaluation };
// Adds all metrics but the loss.
absl::Status AddMetrics(Graph& graph, const TrainingOptions& options, const Measured& measured,
                        MetricScope scope);

}  // namespace ebb::graph
