// One case of an op on two devices: the same values, up to what orders of sums may do.
#pragma once

#include "device/device.h"
#include "tests/device/case_graph.h"

namespace ebb::testing {

// Expects that `device` makes of the case what `ref` makes of it: floats within 1e-5, whole numbers
// the same.
void CompareCase(device::Device& device, device::Device& ref, const OpCase& c, Order order);

}  // namespace ebb::testing
