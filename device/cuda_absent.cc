// What is linked where there is no CUDA device: it says so.
#include "device/cuda/cuda_device.h"

namespace ebb::device {

absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int, const DeviceOptions&, CudaGraphs) {
  return absl::UnavailableError("this version has no CUDA device; use the device \"cpu\"");
}

}  // namespace ebb::device
