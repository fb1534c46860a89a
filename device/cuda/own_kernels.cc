#include "device/cuda/own_kernels.h"

#include "absl/container/flat_hash_map.h"

namespace ebb::device::cuda {
namespace {

using Table = absl::flat_hash_map<absl::string_view, CudaKernelFactory>;

Table AllKernels() {
  Table table;
  for (const auto rows : {
           AdaptiveKernels(),     BatchNormKernels(), BinaryKernels(),    ChoiceKernels(),
           EmbeddingBagKernels(), GatherKernels(),    GroupNormKernels(), IndexKernels(),
           LayerNormKernels(),    LogicKernels(),     LossKernels(),      LrnKernels(),
           MetricKernels(),       MovementKernels(),  PoolKernels(),      RandomKernels(),
           ReduceKernels(),       RmsNormKernels(),   SoftmaxKernels(),   SparseAdaptiveKernels(),
           UnaryKernels(),        UpdateKernels(),
       }) {
    for (const CudaKernelRow& row : rows) table.emplace(row.op, row.make);
  }
  return table;
}

}  // namespace

CudaKernelFactory FindOwnKernel(absl::string_view op) {
  static const auto* const table = new Table(AllKernels());
  const auto it = table->find(op);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace ebb::device::cuda
