// Own kernels (*.cu) by op. Compiled into whatever has the kernels: the GPU's library, and the test
// double.
#pragma once

#include "absl/strings/string_view.h"
#include "device/cuda/kernel.h"

namespace ebb::device::cuda {

// Null when the op has none.
CudaKernelFactory FindOwnKernel(absl::string_view op);

}  // namespace ebb::device::cuda
