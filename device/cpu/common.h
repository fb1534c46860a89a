// What the kernels of `cpu` share: the tables by family.
#pragma once

#include <utility>

#include "absl/types/span.h"
#include "base/status.h"
#include "device/common/operands.h"
#include "device/kernel.h"

namespace ebb::device::cpu {

// The families, each in a file of its name.
absl::Span<const KernelRow> UnaryKernels();
absl::Span<const KernelRow> BinaryKernels();
absl::Span<const KernelRow> LogicKernels();
absl::Span<const KernelRow> MatmulKernels();
absl::Span<const KernelRow> ConvKernels();
absl::Span<const KernelRow> PoolKernels();
absl::Span<const KernelRow> BatchNormKernels();
absl::Span<const KernelRow> LayerNormKernels();
absl::Span<const KernelRow> RmsNormKernels();
absl::Span<const KernelRow> GroupNormKernels();
absl::Span<const KernelRow> LrnKernels();
absl::Span<const KernelRow> SoftmaxKernels();
absl::Span<const KernelRow> MovementKernels();
absl::Span<const KernelRow> GatherKernels();
absl::Span<const KernelRow> IndexKernels();
absl::Span<const KernelRow> ChoiceKernels();
absl::Span<const KernelRow> ReduceKernels();
absl::Span<const KernelRow> LossKernels();
absl::Span<const KernelRow> MetricKernels();
absl::Span<const KernelRow> UpdateKernels();
absl::Span<const KernelRow> RandomKernels();
absl::Span<const KernelRow> RecurrentKernels();
absl::Span<const KernelRow> EmbeddingBagKernels();

inline Kernel MakeKernel(std::function<absl::Status(const KernelArgs&)> run,
                         Bytes workspace = Bytes(0)) {
  return Kernel{std::move(run), workspace};
}

}  // namespace ebb::device::cpu
