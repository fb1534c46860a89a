// Sums and means of rows of a table, bag by bag, and their gradient.
#include <algorithm>
#include <vector>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

struct Bags {
  int64_t rows, width, indices, bags;
  bool wide_index, mean, last_offset;

  // Element i of indices or offsets.
  int64_t At(const void* list, int64_t i) const {
    return wide_index ? static_cast<const int64_t*>(list)[i] : static_cast<const int32_t*>(list)[i];
  }
  // The row that is meant; -1: none.
  int64_t Row(const void* list, int64_t i) const {
    const int64_t index = At(list, i), row = index < 0 ? index + rows : index;
    return row >= 0 && row < rows ? row : -1;
  }
  std::pair<int64_t, int64_t> Range(const void* offsets, int64_t bag) const {
    const auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at, 0, indices); };
    const int64_t begin = clamp(At(offsets, bag));
    const bool open = bag + 1 == bags && !last_offset;
    return {begin, std::max(begin, open ? indices : clamp(At(offsets, bag + 1)))};
  }
  double Scale(int64_t begin, int64_t end) const {
    return mean && end > begin ? 1.0 / static_cast<double>(end - begin) : 1.0;
  }
};

// `weight` is the table's shape, `y` the bags'.
Bags BagsOf(const Graph& graph, const Node& node, const Shape& weight, const Shape& y) {
  return {.rows = weight[0],
          .width = weight[1],
          .indices = InType(graph, node, 1).shape[0],
          .bags = y[0],
          .wide_index = InType(graph, node, 1).dtype == DType::kI64,
          .mean = node.attrs.Str("mode") == "mean",
          .last_offset = node.attrs.Int("include_last_offset", 0) != 0};
}

// (weight, indices, offsets) -> y
absl::StatusOr<Kernel> Bag(const Graph& graph, const Node& node) {
  const Bags s = BagsOf(graph, node, InType(graph, node, 0).shape, OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [s](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t bag = 0; bag < s.bags; ++bag) {
      const auto [begin, end] = s.Range(args.in[2], bag);
      for (int64_t j = 0; j < s.width; ++j) {
        double sum = 0;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t row = s.Row(args.in[1], i);
          if (row >= 0) sum += static_cast<double>(In<T>(args, 0)[row * s.width + j]);
        }
        Out<T>(args)[bag * s.width + j] = static_cast<T>(sum * s.Scale(begin, end));
      }
    }
  });
}

// (dy, indices, offsets) -> dweight
absl::StatusOr<Kernel> BagGrad(const Graph& graph, const Node& node) {
  const Bags s = BagsOf(graph, node, OutType(graph, node).shape, InType(graph, node, 0).shape);
  return ForFloat(OutType(graph, node).dtype, [s](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::vector<double> sums(static_cast<size_t>(s.rows * s.width));
    for (int64_t bag = 0; bag < s.bags; ++bag) {
      const auto [begin, end] = s.Range(args.in[2], bag);
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = s.Row(args.in[1], i);
        for (int64_t j = 0; row >= 0 && j < s.width; ++j) {
          sums[static_cast<size_t>(row * s.width + j)] +=
              static_cast<double>(In<T>(args, 0)[bag * s.width + j]) * s.Scale(begin, end);
        }
      }
    }
    std::transform(sums.begin(), sums.end(), Out<T>(args),
                   [](double v) { return static_cast<T>(v); });
  });
}

}  // namespace

absl::Span<const KernelRow> EmbeddingBags() {
  static constexpr KernelRow kRows[] = {{"EmbeddingBag", Bag}, {"EmbeddingBagGrad", BagGrad}};
  return kRows;
}

}  // namespace ebb::device::ref
