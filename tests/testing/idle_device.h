// A host device that computes nothing: every node takes a few microseconds and leaves memory as it
// is. For tests of order and memory, in which values do not matter.
#pragma once

#include <memory>

#include "device/device.h"

namespace ebb::testing {

std::unique_ptr<device::Device> MakeIdleDevice();

}  // namespace ebb::testing
