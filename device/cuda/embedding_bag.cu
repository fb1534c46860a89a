// Sums and means of rows of a table, bag by bag; the gradient adds rows in the order of the
// indices.
#include "base/status.h"
#include "device/common/look_up.h"
#include "device/cuda/fill.h"
#include "device/cuda/segments.h"

namespace ebb::device::cuda {
namespace {

// A thread a bag and column: neighbours read neighbouring elements of a row.
template <class I>
struct SumBag {
  EBB_INLINE void operator()(int64_t at) const {
    const auto [b, column] = width(at);
    const Bags::Bag bag = bags.At(offsets, b);
    float sum = 0;
    for (int64_t i = bag.begin; i < bag.end; ++i) {
      const int64_t row = RowOf(indices[i], bags.rows);
      if (row >= 0) sum += weight[row * bags.width + column];
    }
    y[at] = bag.scale * sum;
  }
  Bags bags;
  Divider width;
  const float* weight;
  const I* indices;
  const I* offsets;
  float* y;
};

template <class I>
CudaKernel Forward(const Bags& s) {
  return MakeCudaKernel([s](const Launch& at, const KernelArgs& args) {
    if (s.width == 0) return absl::OkStatus();
    return ForEach(at, s.bags * s.width,
                   SumBag<I>{s, Divider(s.width), InPtr<float>(args), InPtr<I>(args, 1),
                             InPtr<I>(args, 2), OutPtr<float>(args)});
  });
}

// What the gradient needs to know of a bag.
struct BagRange {
  EBB_INLINE bool Has(int64_t i) const { return i >= begin && i < end; }
  int32_t begin, end;
  float scale;
};

// Offsets may be in any order, and an index then in several bags: `unordered` becomes 1.
template <class I>
struct LookAtBags {
  EBB_INLINE void operator()(int64_t b) const {
    const Bags::Bag bag = bags.At(offsets, b);
    ranges[b] = {static_cast<int32_t>(bag.begin), static_cast<int32_t>(bag.end), bag.scale};
    if (b > 0 && bag.begin < bags.Clamped(offsets[b - 1])) *unordered = 1;
  }
  Bags bags;
  const I* offsets;
  BagRange* ranges;
  int32_t* unordered;
};

// The first bag that an index is in, -1 where it is in none.
struct FindBag {
  EBB_INLINE void operator()(int64_t i) const {
    if (*unordered == 0) {
      const int64_t bag = LastBegunAt(i);
      bag_of[i] = bag >= 0 && ranges[bag].Has(i) ? static_cast<int32_t>(bag) : -1;
      return;
    }
    int32_t bag = 0;
    while (bag < bags && !ranges[bag].Has(i)) ++bag;
    bag_of[i] = bag < bags ? bag : -1;
  }
  // Of bags in order the last that begins at i or before.
  EBB_INLINE int64_t LastBegunAt(int64_t i) const {
    int64_t low = 0;
    int64_t high = bags;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (ranges[middle].begin <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - 1;
  }
  const BagRange* ranges;
  const int32_t* unordered;
  int32_t* bag_of;
  int64_t bags;
};

template <class I>
struct RowOfBagged {
  EBB_INLINE int64_t operator()(int64_t i) const {
    return bag_of[i] < 0 ? -1 : RowOf(indices[i], rows);
  }
  const I* indices;
  const int32_t* bag_of;
  int64_t rows;
};

struct BaggedRows {
  EBB_INLINE float Value(int64_t i, int64_t column) const {
    int64_t b = bag_of[i];
    float value = ranges[b].scale * dy[b * width + column];
    if (*unordered == 0) return value;
    for (++b; b < bags; ++b) {
      if (ranges[b].Has(i)) value += ranges[b].scale * dy[b * width + column];
    }
    return value;
  }
  EBB_INLINE void Done(int64_t row, int64_t column, float sum) const {
    dweight[row * width + column] = sum;
  }
  const float* dy;
  const BagRange* ranges;
  const int32_t* unordered;
  const int32_t* bag_of;
  float* dweight;
  int64_t bags, width;
};

// Workspace: that of the sums, then the bags, each index's bag, and whether offsets are out of
// order.
template <class I>
CudaKernel Backward(const Bags& s) {
  const Bytes sums = SegmentSumsWorkspace(s.indices, s.width);
  return MakeCudaKernel(
      [s, sums](const Launch& at, const KernelArgs& args) {
        EBB_RETURN_IF_ERROR(Fill(at, OutPtr<float>(args), s.rows * s.width, 0.0f));
        auto* const ranges =
            reinterpret_cast<BagRange*>(static_cast<char*>(args.workspace) + sums.count());
        auto* const bag_of = reinterpret_cast<int32_t*>(ranges + s.bags);
        int32_t* const unordered = bag_of + s.indices;
        EBB_RETURN_IF_ERROR(Fill(at, unordered, 1, 0));
        EBB_RETURN_IF_ERROR(
            ForEach(at, s.bags, LookAtBags<I>{s, InPtr<I>(args, 2), ranges, unordered}));
        EBB_RETURN_IF_ERROR(ForEach(at, s.indices, FindBag{ranges, unordered, bag_of, s.bags}));
        return SegmentSums(at, s.rows, s.indices, s.width,
                           RowOfBagged<I>{InPtr<I>(args, 1), bag_of, s.rows},
                           BaggedRows{InPtr<float>(args), ranges, unordered, bag_of,
                                      OutPtr<float>(args), s.bags, s.width},
                           args.workspace);
      },
      sums + Bytes(s.bags * static_cast<int64_t>(sizeof(BagRange)) +
                   (s.indices + 1) * static_cast<int64_t>(sizeof(int32_t))));
}

// `weight` is the table's shape, `y` the bags'.
absl::StatusOr<Bags> BagsOf(const Graph& graph, const Node& node, const Shape& weight,
                            const Shape& y) {
  EBB_RETURN_IF_ERROR(RequireF32(graph, node));
  EBB_RETURN_IF_ERROR(RequirePlain(graph, node));
  const Bags bags{.rows = weight[0],
                  .width = weight[1],
                  .indices = In(graph, node, 1).type.shape[0],
                  .bags = y[0],
                  .mean = node.attrs.Str("mode") == "mean",
                  .last_offset = node.attrs.Int("include_last_offset", 0) != 0};
  EBB_RETURN_IF_ERROR(CheckSortable(node, bags.rows, std::max(bags.indices, bags.bags)));
  return bags;
}

bool NarrowIndices(const Graph& graph, const Node& node) {
  return In(graph, node, 1).type.dtype == DType::kI32;
}

absl::StatusOr<CudaKernel> MakeBag(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const Bags s, BagsOf(graph, node, In(graph, node, 0).type.shape,
                                            Out(graph, node).type.shape));
  return NarrowIndices(graph, node) ? Forward<int32_t>(s) : Forward<int64_t>(s);
}

absl::StatusOr<CudaKernel> MakeBagGrad(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const Bags s, BagsOf(graph, node, Out(graph, node).type.shape,
                                            In(graph, node, 0).type.shape));
  return NarrowIndices(graph, node) ? Backward<int32_t>(s) : Backward<int64_t>(s);
}

constexpr CudaKernelRow kRows[] = {{"EmbeddingBag", MakeBag}, {"EmbeddingBagGrad", MakeBagGrad}};

}  // namespace

absl::Span<const CudaKernelRow> EmbeddingBagKernels() { return kRows; }

}  // namespace ebb::device::cuda
