// Recognises layers that an exporter wrote as arithmetic and makes single ops of them: layer and
// RMS normalisation, group normalisation, GELU (by erf and by tanh), SiLU, and the softmax of
// PyTorch's attention. One op keeps one tensor for backward where its parts keep five. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::model {

// A forward graph that computes the same up to rounding. Parts that others read, or that are
// outputs, stay as they are, and so does what only looks alike (another constant, other axes).
absl::StatusOr<graph::Graph> FuseLayers(const graph::Graph& graph);

}  // namespace ebb::model
