// Updates that divide by a history of squares: a part of the family "update".
#pragma once

#include "absl/types/span.h"
#include "device/kernel.h"

namespace ebb::device::ref {

absl::Span<const KernelRow> Adaptive();

}  // namespace ebb::device::ref
