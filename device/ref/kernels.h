// The families of reference kernels; each mirrors graph/ops/<family>.cc.
#pragma once

#include "absl/types/span.h"
#include "device/kernel.h"

namespace ebb::device::ref {

absl::Span<const KernelRow> Elementwise();

}  // namespace ebb::device::ref
