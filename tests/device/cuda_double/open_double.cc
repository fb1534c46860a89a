#include "tests/device/cuda_double/open_double.h"

#include <set>

#include "base/check.h"
#include "base/status.h"
#include "device/cpu/cpu_device.h"
#include "device/cpu/onednn.h"
#include "device/cuda/launch.h"
#include "device/cuda/library.h"
#include "device/cuda/own_kernels.h"
#include "tests/device/cuda_double/double_library.h"

namespace ebb::testing {
namespace {

using device::cuda::CudaKernel;
using device::cuda::KernelMaker;

// Ops that cuDNN and cuBLASLt do on the GPU.
bool IsOfALibrary(absl::string_view op) {
  static const auto* const ops = new std::set<absl::string_view>{
      "Conv",     "ConvGradInput", "ConvGradWeight", "MatMul", "Gemm", "Lstm",
      "LstmGrad", "Gru",           "GruGrad"};
  return ops->count(op) == 1;
}

// A host kernel put on a stream of the double.
CudaKernel Play(DoubleApi* api, std::string name, device::Kernel kernel) {
  auto run = std::make_shared<const decltype(kernel.run)>(std::move(kernel.run));
  const auto enqueue = [api, name, run](const device::cuda::Launch& at,
                                        const device::KernelArgs& args) {
    std::vector<void*> in(args.in.begin(), args.in.end());
    std::vector<void*> out(args.out.begin(), args.out.end());
    return api->Enqueue(at.stream, [=, workspace = args.workspace] {
      const absl::Status status = (*run)({.in = in, .out = out, .workspace = workspace});
      if (!status.ok()) api->Die(name + ": " + status.ToString());
    });
  };
  return device::cuda::MakeCudaKernel(enqueue, kernel.workspace);
}

KernelMaker MakeByCpu(DoubleApi* api, device::KernelFactory make) {
  return [api, make](const graph::Graph& graph,
                     const graph::Node& node) -> absl::StatusOr<CudaKernel> {
    const device::cpu::ScopedOmpThreads pinned(1);
    EBB_ASSIGN_OR_RETURN(device::Kernel kernel, make(graph, node));
    return Play(api, node.name, std::move(kernel));
  };
}

}  // namespace

PlayedBy WhoPlays(absl::string_view op) {
  if (device::cuda::FindOwnKernel(op) != nullptr) return PlayedBy::kOwnKernel;
  if (device::cuda::FindLibraryKernel(op) != nullptr) return PlayedBy::kOwnKernel;
  if (device::FindCpuKernel(op) == nullptr) return PlayedBy::kNobody;
  return IsOfALibrary(op) ? PlayedBy::kCpu : PlayedBy::kMissing;
}

CudaDouble OpenCudaDouble(const CudaDoubleOptions& options) {
  CudaDouble result;
  result.api = std::make_shared<DoubleApi>(options.api);
  device::cuda::CudaConfig config;
  config.api = result.api;
  config.graphs = options.graphs;
  config.max_graphs = options.max_graphs;
  config.reserve = Bytes(0);
  config.find_kernel = [api = result.api.get(), library = MakeDoubleLibrary(options.asked),
                        first = options.first](absl::string_view op) -> KernelMaker {
    if (KernelMaker make = first ? first(op) : KernelMaker()) return make;
    if (const auto own = device::cuda::FindOwnKernel(op)) return own;
    if (const auto make = device::cuda::FindLibraryKernel(op)) {
      return [library, make](const graph::Graph& graph, const graph::Node& node) {
        return make(*library, graph, node);
      };
    }
    const device::KernelFactory make = device::FindCpuKernel(op);
    return make == nullptr ? KernelMaker() : MakeByCpu(api, make);
  };
  auto device = device::cuda::MakeCudaDevice(std::move(config));
  EBB_CHECK(device.ok());
  result.device = *std::move(device);
  return result;
}

}  // namespace ebb::testing

namespace ebb::device {

absl::StatusOr<std::unique_ptr<Device>> OpenCuda(int ordinal, const DeviceOptions&,
                                                 CudaGraphs graphs) {
  if (ordinal != 0) return absl::UnavailableError("the test double is one GPU");
  return testing::OpenCudaDouble({.graphs = graphs == CudaGraphs::kUse}).device;
}

}  // namespace ebb::device
