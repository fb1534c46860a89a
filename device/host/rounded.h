// Nodes with operands of 16 bits on devices that compute in f32: their kernels run on copies that
// are f32, and what they make is rounded. Right for every op at once, and no faster than f32.
#pragma once

#include "absl/status/statusor.h"
#include "device/common/rounded.h"
#include "device/kernel.h"
#include "graph/graph.h"

namespace ebb::device {

// `make` is given the node with f32 in their place. The copies are in the kernel's workspace.
// Errors are PlanRounded()'s and the factory's.
absl::StatusOr<Kernel> MakeRounded(const graph::Graph& graph, const graph::Node& node,
                                   KernelFactory make);

}  // namespace ebb::device
