// Losses and metrics: what BuildTrainingGraph and BuildEvalGraph put behind a forward graph.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

// The output of the forward graph that the loss reads (kGraphOutput: that it is). InvalidArgument
// lists the outputs when the name fits none, or is missing and there are several.
absl::StatusOr<ValueId> FindLossOutput(const Graph& forward, const LossSpec& spec);

// Contradictions between loss and metrics, or values out of range: InvalidArgument.
absl::Status CheckOptions(const LossSpec& loss, const std::vector<MetricSpec>& metrics);

// Adds the batch field that `output` is compared with, or finds it; invalid for kGraphOutput.
absl::StatusOr<ValueId> AddTarget(Graph& graph, const LossSpec& spec, ValueId output);

// Adds the loss, exposes it as "metric/loss" and returns it.
absl::StatusOr<ValueId> AddLoss(Graph& graph, const LossSpec& spec, ValueId output, ValueId target);

// Adds "metric/<name>.sum" and "metric/<name>.count" for every metric but the loss; `valid` (the
// number of rows that count) may be absent.
absl::Status AddMetrics(Graph& graph, const TrainingOptions& options, ValueId output,
                        ValueId target, ValueId valid);

// Adds "metric/loss.sum" and "metric/loss.count"; kGraphOutput: "metric/loss".
absl::Status AddEvalLoss(Graph& graph, const LossSpec& spec, ValueId output, ValueId target,
                         ValueId valid);

}  // namespace ebb::graph
