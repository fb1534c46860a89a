#include "device/ref/common.h"

#include <cstring>

namespace ebb::device::ref {

Shape BroadcastStrides(const Shape& from, const Shape& to) {
  const Shape dense = StridesOf(from);
  Shape strides(to.size(), 0);
  const size_t lead = to.size() - from.size();
  for (size_t d = 0; d < from.size(); ++d) strides[lead + d] = from[d] == 1 ? 0 : dense[d];
  return strides;
}

AxisSplit SplitAt(const Shape& shape, size_t axis) {
  AxisSplit split;
  for (size_t d = 0; d < axis; ++d) split.outer *= shape[d];
  split.size = shape[axis];
  for (size_t d = axis + 1; d < shape.size(); ++d) split.inner *= shape[d];
  return split;
}

absl::StatusOr<Kernel> CopyKernel(const Graph& graph, const Node& node) {
  const auto bytes = static_cast<size_t>(OutType(graph, node).bytes().count());
  return KernelOf<char>([bytes](char, const KernelArgs& args) {
    if (bytes > 0 && args.out[0] != args.in[0]) std::memcpy(args.out[0], args.in[0], bytes);
  });
}

}  // namespace ebb::device::ref
