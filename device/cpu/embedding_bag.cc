// Sums and means of rows of a table, bag by bag; the gradient adds rows in the order of the
// indices.
#include <algorithm>

#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

struct Bags {
  int64_t rows = 0, width = 0, indices = 0, bags = 0;
  bool mean = false, last_offset = false;

  // The bag's indices [begin, end) and what its rows are scaled by. Offsets are data: whatever they
  // are, the range lies within the indices.
  struct Bag {
    int64_t begin, end;
    float scale;
  };
  template <class I>
  Bag At(const I* offsets, int64_t bag) const {
    const auto clamp = [&](I at) { return std::clamp<int64_t>(at, 0, indices); };
    const int64_t begin = clamp(offsets[bag]);
    const bool open = bag + 1 == bags && !last_offset;
    const int64_t end = std::max(begin, open ? indices : clamp(offsets[bag + 1]));
    return {begin, end, mean && end > begin ? 1.0f / static_cast<float>(end - begin) : 1.0f};
  }
  // The row that an index means; -1 when there is none.
  template <class I>
  int64_t Row(I index) const {
    const int64_t row = index < 0 ? static_cast<int64_t>(index) + rows : index;
    return row >= 0 && row < rows ? row : -1;
  }
};

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
        const int64_t row = s.Row(InPtr<I>(args, 1)[i]);
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
        const int64_t row = s.Row(InPtr<I>(args, 1)[i]);
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
