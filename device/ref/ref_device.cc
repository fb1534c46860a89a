// The reference device is a host device with the kernels of device/ref.
#include "device/ref/ref_device.h"

#include <algorithm>

#include "device/host/host_device.h"
#include "device/ref/adaptive.h"
#include "device/ref/kernels.h"

namespace ebb::device {
namespace {

KernelFactory FindKernel(absl::string_view op) {
  for (absl::Span<const KernelRow> family :
       {ref::Elementwise(), ref::Binary(), ref::Logic(), ref::Matmul(), ref::Conv(), ref::Pool(),
        ref::Norm(), ref::GroupNorm(), ref::Movement(), ref::Index(), ref::Reduce(), ref::Loss(),
        ref::Metric(), ref::Update(), ref::Adaptive(), ref::Random(), ref::Recurrent(),
        ref::EmbeddingBags()}) {
    auto row = std::find_if(family.begin(), family.end(),
                            [&](const KernelRow& candidate) { return candidate.op == op; });
    if (row != family.end()) return row->make;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> OpenRef(const DeviceOptions& options) {
  if (options.threads_per_stream > 1) {
    return absl::InvalidArgumentError(
        "device \"ref\" computes on one thread a stream; leave threads_per_stream at 0 or 1");
  }
  return std::make_unique<HostDevice>(
      HostConfig{.spec = HostSpec("ref", 1), .find_kernel = FindKernel, .thread_setup = {}});
}

}  // namespace ebb::device
