// The families of reference kernels; each mirrors graph/ops/<family>.cc.
#pragma once

#include "absl/types/span.h"
#include "device/kernel.h"

namespace ebb::device::ref {

absl::Span<const KernelRow> Elementwise();
absl::Span<const KernelRow> Binary();
absl::Span<const KernelRow> Logic();
absl::Span<const KernelRow> Matmul();
absl::Span<const KernelRow> Conv();
absl::Span<const KernelRow> Pool();
absl::Span<const KernelRow> Norm();
absl::Span<const KernelRow> GroupNorm();
absl::Span<const KernelRow> Movement();
absl::Span<const KernelRow> Index();
absl::Span<const KernelRow> Reduce();
absl::Span<const KernelRow> Loss();
absl::Span<const KernelRow> Metric();
absl::Span<const KernelRow> Update();
absl::Span<const KernelRow> Random();
absl::Span<const KernelRow> Recurrent();
absl::Span<const KernelRow> EmbeddingBags();

}  // namespace ebb::device::ref
