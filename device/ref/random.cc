// Dropout: whether an element is kept depends on the seed, the step, the node and its index only.
#include "base/philox.h"
#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// (x, rng) -> y, mask
absl::StatusOr<Kernel> Dropout(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(OutType(graph, node).shape);
  const double ratio = node.attrs.Float("ratio", 0);
  const auto stream = static_cast<uint32_t>(node.attrs.Int("stream", 0));
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const auto* rng = In<int64_t>(args, 1);
    const PhiloxKey key = PhiloxKeyFrom(static_cast<uint64_t>(rng[0]));
    const auto step = static_cast<uint32_t>(rng[1]);
    for (int64_t i = 0; i < n; ++i) {
      const auto group = static_cast<uint64_t>(i / 4);
      const PhiloxCounter words = Philox(
          {static_cast<uint32_t>(group), static_cast<uint32_t>(group >> 32), stream, step}, key);
      const bool keep =
          UniformFloat(words[static_cast<size_t>(i % 4)]) >= static_cast<float>(ratio);
      Out<uint8_t>(args, 1)[i] = keep ? 1 : 0;
      Out<T>(args)[i] = static_cast<T>(keep ? In<T>(args, 0)[i] / (1 - ratio) : 0);
    }
  });
}

// (dy, mask)
absl::StatusOr<Kernel> DropoutGrad(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(OutType(graph, node).shape);
  const double ratio = node.attrs.Float("ratio", 0);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      const bool keep = In<uint8_t>(args, 1)[i] != 0;
      Out<T>(args)[i] = static_cast<T>(keep ? In<T>(args, 0)[i] / (1 - ratio) : 0);
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Random() {
  static constexpr KernelRow kRows[] = {{"Dropout", Dropout}, {"DropoutGrad", DropoutGrad}};
  return kRows;
}

}  // namespace ebb::device::ref
