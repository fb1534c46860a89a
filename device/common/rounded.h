// Nodes with operands of 16 bits (bf16, f16) for kernels that compute in f32: which operands are
// copied to f32, where the copies lie in the workspace, and the node as the kernel sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::device {

bool TouchesLow(const graph::Graph& graph, const graph::Node& node);

// Where the f32 copy of an operand is; `low` is false for operands that are not of 16 bits.
struct RoundedOperand {
  bool low = false;
  graph::DType dtype = graph::DType::kF32;
  int64_t elements = 0;
  int64_t offset = 0;  // bytes into the workspace
};

struct RoundedPlan {
  std::vector<RoundedOperand> in, out;
  int64_t bytes = 0;  // of all copies: the kernel's own workspace comes after them
  // The node alone (its only one), over f32 values of the same shapes and layouts.
  std::shared_ptr<const graph::Graph> shadow;
};

// Copies start at multiples of `alignment`. Unimplemented where the node updates a low operand.
absl::StatusOr<RoundedPlan> PlanRounded(const graph::Graph& graph, const graph::Node& node,
                                        Bytes alignment);

}  // namespace ebb::device
