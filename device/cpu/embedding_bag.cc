// Sums and means of rows of a table, bag by bag; the gradient adds rows in the order of the
// indices.
#include <algorithm>

#include "device/common/look_up.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

// Columns [0, kLanes * n) of all bags, added in registers: a sum that is stored after each row
// would have to come back before the next. Indices without a row add zeros.
template <int n, class I>
EBB_CLONES void SumColumns(const float* table, const Bags& s, const I* indices, const I* offsets,
                           float* y) {
  static constexpr float kZeros[kLanes * n] = {};
  const int64_t rows = s.rows, width = s.width;
  for (int64_t b = 0; b < s.bags; ++b) {
    const Bags::Bag bag = s.At(offsets, b);
    Lanes sums[n] = {};
    for (int64_t i = bag.begin; i < bag.end; ++i) {
      const int64_t row = RowOf(indices[i], rows);
      const auto* const x = reinterpret_cast<const Lanes*>(row < 0 ? kZeros : table + row * width);
      for (int k = 0; k < n; ++k) sums[k] += x[k];
    }
    for (int k = 0; k < n; ++k) reinterpret_cast<Lanes*>(y + b * width)[k] = sums[k] * bag.scale;
  }
}

// Columns [from, width): fewer than a register holds.
template <class I>
void SumRest(const float* table, const Bags& s, const I* indices, const I* offsets, int64_t from,
             float* y) {
  for (int64_t b = 0; b < s.bags; ++b) {
    const Bags::Bag bag = s.At(offsets, b);
    float sums[kLanes] = {};
    for (int64_t i = bag.begin; i < bag.end; ++i) {
      const int64_t row = RowOf(indices[i], s.rows);
      if (row < 0) continue;
      for (int64_t j = from; j < s.width; ++j) sums[j - from] += table[row * s.width + j];
    }
    for (int64_t j = from; j < s.width; ++j) y[b * s.width + j] = sums[j - from] * bag.scale;
  }
}

EBB_CLONES void AddScaledRow(const float* x, float scale, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] += scale * x[j];
}
template <class I>
Kernel Forward(const Bags& s) {
  return MakeKernel([s](const KernelArgs& args) {
    const auto* const table = InPtr<float>(args);
    const auto* const indices = InPtr<I>(args, 1);
    const auto* const offsets = InPtr<I>(args, 2);
    auto* const y = OutPtr<float>(args);
    int64_t done = 0;
    for (; s.width - done >= 8 * kLanes; done += 8 * kLanes) {
      SumColumns<8>(table + done, s, indices, offsets, y + done);
    }
    for (; s.width - done >= 2 * kLanes; done += 2 * kLanes) {
      SumColumns<2>(table + done, s, indices, offsets, y + done);
    }
    if (s.width - done >= kLanes) {
      SumColumns<1>(table + done, s, indices, offsets, y + done);
      done += kLanes;
    }
    if (done < s.width) SumRest(table, s, indices, offsets, done, y);
    return absl::OkStatus();
  });
}

template <class I>
Kernel Backward(const Bags& s) {
  return MakeKernel([s](const KernelArgs& args) {
    const float* dy = InPtr<float>(args);
    float* dweight = OutPtr<float>(args);
    std::fill_n(dweight, s.rows * s.width, 0.0f);
    for (int64_t b = 0; b < s.bags; ++b, dy += s.width) {
      const Bags::Bag bag = s.At(InPtr<I>(args, 2), b);
      for (int64_t i = bag.begin; i < bag.end; ++i) {
        const int64_t row = RowOf(InPtr<I>(args, 1)[i], s.rows);
        if (row >= 0) AddScaledRow(dy, bag.scale, dweight + row * s.width, s.width);
      }
    }
    return absl::OkStatus();
  });
}

// `weight` is the table's shape, `y` the bags'.
absl::StatusOr<Bags> BagsOf(const Graph& graph, const Node& node, const Shape& weight,
                            const Shape& y) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  return Bags{.rows = weight[0],
              .width = weight[1],
              .indices = In(graph, node, 1).type.shape[0],
              .bags = y[0],
              .mean = node.attrs.Str("mode") == "mean",
              .last_offset = node.attrs.Int("include_last_offset", 0) != 0};
}

bool NarrowIndices(const Graph& graph, const Node& node) {
  return In(graph, node, 1).type.dtype == DType::kI32;
}

absl::StatusOr<Kernel> MakeBag(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const Bags s, BagsOf(graph, node, In(graph, node, 0).type.shape,
                                            Out(graph, node).type.shape));
  return NarrowIndices(graph, node) ? Forward<int32_t>(s) : Forward<int64_t>(s);
}

absl::StatusOr<Kernel> MakeBagGrad(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const Bags s, BagsOf(graph, node, Out(graph, node).type.shape,
                                            In(graph, node, 0).type.shape));
  return NarrowIndices(graph, node) ? Backward<int32_t>(s) : Backward<int64_t>(s);
}

constexpr KernelRow kRows[] = {{"EmbeddingBag", MakeBag}, {"EmbeddingBagGrad", MakeBagGrad}};

}  // namespace

absl::Span<const KernelRow> EmbeddingBagKernels() { return kRows; }

}  // namespace ebb::device::cpu
