// Bytes that travel with a launch. Only for cuda_api.cc.
#pragma once

#include <array>

#include "absl/status/status.h"
#include "device/cuda/api.h"

namespace ebb::device::cuda {

absl::Status WriteBytes(Stream stream, void* to, const std::array<char, 64>& data, Bytes bytes);

}  // namespace ebb::device::cuda
