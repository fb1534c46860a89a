// A kernel of the CUDA device: prepared once a node, then put onto a stream with pointers.
// The files of kernels (*.cu) are compiled twice: by nvcc for the GPU, and by the host's compiler
// for the test double, where launch.h runs the same functors in loops. They name no CUDA header.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "device/common/operands.h"
#include "device/cuda/api.h"
#include "device/kernel.h"

namespace ebb::device::cuda {

// Where a kernel goes.
struct Launch {
  Stream stream = nullptr;
};

struct CudaKernel {
  std::function<absl::Status(const Launch&, const KernelArgs&)> enqueue;
  Bytes workspace;
};

using KernelMaker = std::function<absl::StatusOr<CudaKernel>(const Graph& graph, const Node& node)>;
using CudaKernelFactory = absl::StatusOr<CudaKernel> (*)(const Graph& graph, const Node& node);
struct CudaKernelRow {
  absl::string_view op;
  CudaKernelFactory make;
};

// Enqueues of operands in `args`, which last only for the call.
inline CudaKernel MakeCudaKernel(
    std::function<absl::Status(const Launch&, const KernelArgs&)> enqueue,
    Bytes workspace = Bytes(0)) {
  return CudaKernel{std::move(enqueue), workspace};
}

// The families of own kernels, each in a file of its name.
absl::Span<const CudaKernelRow> AdaptiveKernels();
absl::Span<const CudaKernelRow> BatchNormKernels();
absl::Span<const CudaKernelRow> BinaryKernels();
absl::Span<const CudaKernelRow> ChoiceKernels();
absl::Span<const CudaKernelRow> EmbeddingBagKernels();
absl::Span<const CudaKernelRow> GatherKernels();
absl::Span<const CudaKernelRow> GroupNormKernels();
absl::Span<const CudaKernelRow> IndexKernels();
absl::Span<const CudaKernelRow> LayerNormKernels();
absl::Span<const CudaKernelRow> LogicKernels();
absl::Span<const CudaKernelRow> LossKernels();
absl::Span<const CudaKernelRow> LrnKernels();
absl::Span<const CudaKernelRow> MetricKernels();
absl::Span<const CudaKernelRow> MovementKernels();
absl::Span<const CudaKernelRow> PoolKernels();
absl::Span<const CudaKernelRow> RandomKernels();
absl::Span<const CudaKernelRow> ReduceKernels();
absl::Span<const CudaKernelRow> RmsNormKernels();
absl::Span<const CudaKernelRow> SoftmaxKernels();
absl::Span<const CudaKernelRow> SparseAdaptiveKernels();
absl::Span<const CudaKernelRow> UnaryKernels();
absl::Span<const CudaKernelRow> UpdateKernels();

}  // namespace ebb::device::cuda
