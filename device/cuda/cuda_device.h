// The `cuda` device: an NVIDIA GPU behind device.h. It is made of two parts, so that all that is
// not CUDA itself is tested without a GPU: what the driver does (api.h) and a way to find kernels.
// In builds without CUDA, device/cuda_absent.cc is linked in place of OpenCuda.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "device/cuda/api.h"
#include "device/cuda/kernel.h"
#include "device/device.h"

namespace ebb::device {
namespace cuda {

struct CudaConfig {
  std::shared_ptr<Api> api;
  // The maker of an op's kernels; an empty function when there is none.
  std::function<KernelMaker(absl::string_view op)> find_kernel;
  // Replays launches that come again as CUDA graphs. Without, the bits are the same.
  bool graphs = true;
  int max_graphs = 512;  // kept by each program
  // What stays outside the pool for modules and plans that are made later.
  Bytes reserve = MiB(256);
};

// The device of `config.api`. ResourceExhausted or the API's own error when the little that it
// needs for itself is not to be had.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(CudaConfig config);

}  // namespace cuda

enum class CudaGraphs { kUse, kAvoid };  // the bits are the same

// The GPU of this number. Unavailable when the build, the driver or the machine has no such GPU.
absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int ordinal, const DeviceOptions& options,
                                                 CudaGraphs graphs);

}  // namespace ebb::device
