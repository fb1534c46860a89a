// The channels-last pass: N,H,W,C in memory is what convolutions run best on, so chains of
// convolutions, pooling, normalisation and elementwise ops keep it from end to end.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::device {

// Marks the rank-4 activations of those chains as channels last and inserts ToChannelsLast and
// ToPlain nodes at their borders. Value ids and names stay as they are, new values are appended;
// node ids are renumbered. Inputs, residents, metrics and graph outputs stay plain, and so do
// values that are the same bytes in both orders. A graph without 2-d convolutions comes back
// unchanged.
absl::StatusOr<graph::Graph> ToChannelsLast(graph::Graph graph);

}  // namespace ebb::device
