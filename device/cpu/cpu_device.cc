// A host device with the kernels of this folder and the channels-last pass.
#include "device/cpu/cpu_device.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "device/common/channels_last.h"
#include "device/cpu/adaptive.h"
#include "device/cpu/common.h"
#include "device/cpu/onednn.h"
#include "device/host/host_device.h"

namespace ebb::device {
namespace {

constexpr int kMaxThreads = 1024;

using KernelTable = absl::flat_hash_map<absl::string_view, KernelFactory>;

KernelTable AllKernels() {
  KernelTable table;
  for (const auto rows :
       {cpu::UnaryKernels(),     cpu::BinaryKernels(),    cpu::LogicKernels(),
        cpu::MatmulKernels(),    cpu::ConvKernels(),      cpu::PoolKernels(),
        cpu::BatchNormKernels(), cpu::LayerNormKernels(), cpu::GroupNormKernels(),
        cpu::RmsNormKernels(),   cpu::LrnKernels(),       cpu::SoftmaxKernels(),
        cpu::MovementKernels(),  cpu::GatherKernels(),    cpu::IndexKernels(),
        cpu::ChoiceKernels(),    cpu::ReduceKernels(),    cpu::LossKernels(),
        cpu::MetricKernels(),    cpu::UpdateKernels(),    cpu::AdaptiveKernels(),
        cpu::RandomKernels(),    cpu::RecurrentKernels(), cpu::EmbeddingBagKernels()}) {
    for (const KernelRow& row : rows) table.emplace(row.op, row.make);
  }
  return table;
}

HostConfig ConfigFor(int threads) {
  HostConfig config;
  config.spec = HostSpec("cpu", threads);
  config.find_kernel = FindCpuKernel;
  return config;
}

class CpuDevice final : public HostDevice {
 public:
  explicit CpuDevice(int threads) : HostDevice(ConfigFor(threads)), threads_(threads) {}

  absl::StatusOr<graph::Graph> Lower(graph::Graph graph) const override {
    return ToChannelsLast(std::move(graph));
  }
  // The kernels take the number of threads of the thread that makes them.
  absl::StatusOr<std::unique_ptr<Program>> Compile(const graph::Graph& graph) const override {
    const cpu::ScopedOmpThreads pinned(threads_);
    return HostDevice::Compile(graph);
  }

 private:
  const int threads_;
};

}  // namespace

KernelFactory FindCpuKernel(absl::string_view op) {
  static const auto* const table = new KernelTable(AllKernels());
  const auto it = table->find(op);
  return it == table->end() ? nullptr : it->second;
}

absl::StatusOr<std::unique_ptr<Device>> OpenCpu(const DeviceOptions& options) {
  const int threads = options.threads_per_stream == 0 ? 1 : options.threads_per_stream;
  if (threads < 1 || threads > kMaxThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "device \"cpu\": threads_per_stream is ", threads, "; it must be from 1 to ", kMaxThreads));
  }
  return std::unique_ptr<Device>(std::make_unique<CpuDevice>(threads));
}

}  // namespace ebb::device
