// Opens an NVIDIA GPU as a device. In builds without CUDA, device/cuda_absent.cc is linked instead.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "device/device.h"

namespace ebb::device {

// Unavailable when the build, the driver or the machine has no such GPU.
absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int ordinal, const DeviceOptions& options);

}  // namespace ebb::device
