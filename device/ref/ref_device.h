// The reference device: every op in plain loops, in float or double. It is slow and obvious, and it
// is the oracle that other devices and the gradient rules are checked against.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace ebb::device {

absl::StatusOr<std::unique_ptr<Device>> OpenRef(const DeviceOptions& options);

}  // namespace ebb::device
