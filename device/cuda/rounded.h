// Nodes with operands of 16 bits for kernels that compute in f32: they run on copies that are f32,
// and what they make is rounded. Right for every op at once.
#pragma once

#include "absl/status/statusor.h"
#include "device/common/rounded.h"
#include "device/cuda/kernel.h"

namespace ebb::device::cuda {

// `make` is given the node with f32 in their place. The copies are in the kernel's workspace.
// Errors are PlanRounded()'s and the maker's.
absl::StatusOr<CudaKernel> MakeRounded(const Graph& graph, const Node& node,
                                       const KernelMaker& make);

}  // namespace ebb::device::cuda
