// Runs strided copies on the host.
#pragma once

#include "device/common/strided.h"

namespace ebb::device::cpu {

void Run(const StridedCopy& copy, const void* source, void* target);

}  // namespace ebb::device::cpu
