// Which nodes' kernels read and write operands of 16 bits (bf16, f16) themselves. All others run on
// copies in f32 (rounded.h), with the same bits where only single elements are computed with.
#pragma once

#include "graph/graph.h"

namespace ebb::device::cuda {

// Nodes with more inputs of 16 bits run on copies.
inline constexpr int kMaxLowInputs = 32;

// Whether the kernel of the node's op takes its operands as they are stored. False where none has
// 16 bits.
bool TakesLow(const graph::Graph& graph, const graph::Node& node);

}  // namespace ebb::device::cuda
