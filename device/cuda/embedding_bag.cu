// Sums and means of rows of a table, bag by bag; the gradient adds rows in the order of the
// indices.
#include "base/status.h"
#include "device/common/look_up.h"
#include "device/cuda/bags.h"
#include "device/cuda/fill.h"
#include "device/cuda/segments.h"

namespace ebb::device::cuda {
namespace {

// A thread a bag and column: neighbours read neighbouring elements of a row.
template <class I>
struct SumBag {
  EBB_INLINE void operator()(int64_t at) const {
    const auto [b, column] = Divide(at, width);
    const Bags::Bag bag = bags.At(offsets, b);
    float sum = 0;
    for (int64_t i = bag.begin; i < bag.end; ++i) {
      const int64_t row = RowOf(indices[i], bags.rows);
      if (row >= 0) sum += weight[row * bags.width + column];
    }
    y[at] = bag.scale * sum;
  }
  Bags bags;
  Divisor width;
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
                   SumBag<I>{s, Divisor(s.width), InPtr<float>(args), InPtr<I>(args, 1),
                             InPtr<I>(args, 2), OutPtr<float>(args)});
  });
}

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
        const FoundBags found(s, static_cast<char*>(args.workspace) + sums.count());
        EBB_RETURN_IF_ERROR(FindBags(at, s, InPtr<I>(args, 2), found));
        return SegmentSums(at, s.rows, s.indices, s.width,
                           RowOfBagged<I>{InPtr<I>(args, 1), found.bag_of, s.rows},
                           BaggedRows{InPtr<float>(args), found.ranges, found.unordered,
                                      found.bag_of, OutPtr<float>(args), s.bags, s.width},
                           args.workspace);
      },
      sums + FoundBags::Size(s));
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
