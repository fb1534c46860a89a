#include "absl/container/flat_hash_map.h"
#include "device/cuda/library.h"

namespace ebb::device::cuda {
namespace {

using Table = absl::flat_hash_map<absl::string_view, LibraryKernelFactory>;

Table AllKernels() {
  Table table;
  for (const auto rows : {ConvKernels(), MatmulKernels(), LstmKernels(), GruKernels()}) {
    for (const LibraryKernelRow& row : rows) table.emplace(row.op, row.make);
  }
  return table;
}

}  // namespace

LibraryKernelFactory FindLibraryKernel(absl::string_view op) {
  static const auto* const table = new Table(AllKernels());
  const auto it = table->find(op);
  return it == table->end() ? nullptr : it->second;
}

}  // namespace ebb::device::cuda
