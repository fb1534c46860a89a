// Losses: what BuildTrainingGraph and BuildEvalGraph put behind a forward graph.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

// The output of the forward graph that the loss reads (kGraphOutput: that it is). InvalidArgument
// lists the outputs when the name fits none, or is missing and there are several.
absl::StatusOr<ValueId> FindLossOutput(const Graph& forward, const LossSpec& spec);

// In words, for messages.
absl::string_view Name(LossKind kind);
// Of several classes, by labels.
constexpr bool IsByClass(LossKind kind) {
  return kind == LossKind::kCrossEntropy || kind == LossKind::kNll;
}

// Options that the kind does not have, or values out of range: InvalidArgument.
absl::Status CheckLoss(const LossSpec& loss);

// Adds the batch field that `output` is compared with, or finds it; invalid for kGraphOutput.
absl::StatusOr<ValueId> AddTarget(Graph& graph, const LossSpec& spec, ValueId output);

// Adds the loss, exposes it as "metric/loss" and returns it.
absl::StatusOr<ValueId> AddLoss(Graph& graph, const LossSpec& spec, ValueId output, ValueId target);

// Makes `value` a metric of that name; it must be made by a node and read by none.
absl::Status Expose(Graph& graph, ValueId value, const std::string& name);
// Adds a metric op of two outputs, "metric/<name>.sum" and "metric/<name>.count".
absl::Status AddSums(Graph& graph, absl::string_view op, const std::string& name,
                     std::vector<ValueId> inputs, Attrs attrs = {});

// Adds "metric/loss.sum" and "metric/loss.count"; kGraphOutput: "metric/loss".
absl::Status AddEvalLoss(Graph& graph, const LossSpec& spec, ValueId output, ValueId target,
                         ValueId valid);

}  // namespace ebb::graph
