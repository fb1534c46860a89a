// Sums and means of rows of a table, bag by bag; the gradient adds rows in the order of the
// indices.
#include <algorithm>

#include "device/common/look_up.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

EBB_CLONES void AddRow(const float* x, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] += x[j];
}
EBB_CLONES void AddScaledRow(const float* x, float scale, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] += scale * x[j];
}
EBB_CLONES void ScaleRow(float scale, float* y, int64_t n) {
  EBB_IVDEP
  for (int64_t j = 0; j < n; ++j) y[j] *= scale;
}

template <class I>
Kernel Forward(const Bags& s) {
  return MakeKernel([s](const KernelArgs& args) {
    float* y = OutPtr<float>(args);
    std::fill_n(y, s.bags * s.width, 0.0f);
    for (int64_t b = 0; b < s.bags; ++b, y += s.width) {
      const Bags::Bag bag = s.At(InPtr<I>(args, 2), b);
      for (int64_t i = bag.begin; i < bag.end; ++i) {
        const int64_t row = RowOf(InPtr<I>(args, 1)[i], s.rows);
        if (row >= 0) AddRow(InPtr<float>(args) + row * s.width, y, s.width);
      }
      if (bag.scale != 1) ScaleRow(bag.scale, y, s.width);
    }
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
