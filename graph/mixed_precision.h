// Mixed precision: activations and matrix products in bf16, parameters, statistics, losses and
// updates in f32.
#pragma once

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::graph {

// In which numbers a job computes. kTf32: graph/tf32.h. kBf16: mixed precision, below.
enum class Precision { kFp32, kTf32, kBf16 };

// Rewrites a forward graph as PyTorch's autocast would run it with bfloat16: convolutions and
// matrix products get all operands cast to bf16; ops that only move, compare, add or bend values
// stay in bf16 where all their operands are (constants of one element do not count); batch norm
// takes bf16 and keeps f32 parameters and statistics; everything else (softmax, losses, the other
// norms, reductions, ...) is computed in f32. A value is cast once each way. Inputs, parameters,
// buffers and the graph's outputs keep their names and f32; of a parameter the gradient arrives in
// f32, through the cast. Nothing is done to values of f64.
absl::StatusOr<Graph> ToMixedPrecision(const Graph& forward);

}  // namespace ebb::graph
