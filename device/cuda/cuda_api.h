// The CUDA runtime behind the seam. Of the driver only what the runtime does not have is used
// (virtual memory), by entry points that the runtime looks up: nothing links against it.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "device/cuda/api.h"

namespace ebb::device::cuda {

// The GPU of this number. Unavailable says whether the driver or the GPU is missing, or what of it.
absl::StatusOr<std::shared_ptr<Api>> OpenApi(int ordinal);

}  // namespace ebb::device::cuda
