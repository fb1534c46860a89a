// The CUDA device as programs get it: the runtime, own kernels and NVIDIA's libraries. Linked as an
// object, and then takes the place of device/cuda_absent.cc.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/cuda/cuda_api.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/cuda_library.h"
#include "device/cuda/own_kernels.h"

namespace ebb::device {
namespace {

cuda::KernelMaker FindKernel(const std::shared_ptr<cuda::Library>& library, absl::string_view op) {
  if (const cuda::CudaKernelFactory own = cuda::FindOwnKernel(op)) return own;
  const cuda::LibraryKernelFactory make = cuda::FindLibraryKernel(op);
  if (make == nullptr) return nullptr;
  return [library, make](const graph::Graph& graph, const graph::Node& node) {
    return make(*library, graph, node);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int ordinal, const DeviceOptions& options,
                                                 CudaGraphs graphs) {
  if (options.threads_per_stream != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("device \"cuda\": threads_per_stream is ", options.threads_per_stream,
                     ", but its streams are not threads; leave it at 0"));
  }
  EBB_ASSIGN_OR_RETURN(std::shared_ptr<cuda::Api> api, cuda::OpenApi(ordinal));
  cuda::CudaConfig config;
  config.api = api;
  config.graphs = graphs == CudaGraphs::kUse;
  config.find_kernel = [library = cuda::MakeCudaLibrary(api)](absl::string_view op) {
    return FindKernel(library, op);
  };
  return cuda::MakeCudaDevice(std::move(config));
}

}  // namespace ebb::device
