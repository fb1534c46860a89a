// The CUDA device of builds without CUDA: it says so.
#include "device/cuda/cuda_device.h"

namespace ebb::device {

absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int, const DeviceOptions&) {
  return absl::UnavailableError(
      "the CUDA device is not part of this build; configure with -DEBB_CUDA=ON on a machine with "
      "the "
      "CUDA toolkit, or use the device \"cpu\"");
}

}  // namespace ebb::device
