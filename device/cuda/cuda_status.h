// Errors of the CUDA runtime and driver as statuses (see api.h). Private to the CUDA device.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"

namespace ebb::device::cuda {

// OK, or what `call` failed with; also forgets it, so that LaunchStatus does not find it.
absl::Status StatusOf(cudaError_t error, const char* call);
absl::Status StatusOf(CUresult result, const char* call);

}  // namespace ebb::device::cuda
