// The CUDA device on the test double. Programs that link the double also get it from
// OpenDevice("cuda"): its OpenCuda stands in for the real one.
#pragma once

#include <functional>
#include <memory>

#include "device/common/precision.h"
#include "device/cuda/cuda_device.h"
#include "tests/device/cuda_double/double_api.h"

namespace ebb::testing {

struct CudaDouble {
  std::shared_ptr<DoubleApi> api;
  std::unique_ptr<device::Device> device;
};
struct CudaDoubleOptions {
  DoubleOptions api;
  bool graphs = true;
  int max_graphs = 512;
  // Asked first for the maker of an op's kernels; may be empty.
  std::function<device::cuda::KernelMaker(absl::string_view op)> first = nullptr;
  // Told of the precision of every product and convolution that is made, from any thread.
  std::function<void(device::Precision)> asked = nullptr;
};
// Terminates the program if it cannot be had.
CudaDouble OpenCudaDouble(const CudaDoubleOptions& options = {});

// Who computes an op on the double.
enum class PlayedBy {
  kOwnKernel,  // the same functor as on the GPU, by loops
  kCpu,        // a library's op on the GPU: `cpu`'s kernel stands in for the library
  kMissing,    // no kernel on the GPU yet; `cpu`'s stands in
  kNobody,
};
PlayedBy WhoPlays(absl::string_view op);

}  // namespace ebb::testing
