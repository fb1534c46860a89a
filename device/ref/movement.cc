// Ops that move elements. Most are one walk over an index space with strides of its own for each
// side.
#include <algorithm>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// y[i] = x[at] for all positions i of y, where `strides` and `base` say where y's elements are in
// x.
absl::StatusOr<Kernel> ReadStrided(const Graph& graph, const Node& node, const Shape& strides,
                                   int64_t base) {
  const Shape shape = OutType(graph, node).shape;
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    Walk(shape, std::array<Shape, 1>{strides}, [&](int64_t i, const std::array<int64_t, 1>& at) {
      Out<T>(args)[i] = In<T>(args, 0)[base + at[0]];
    });
  });
}

absl::StatusOr<Kernel> Transpose(const Graph& graph, const Node& node) {
  const Shape dense = StridesOf(InType(graph, node, 0).shape);
  Shape strides;
  for (int64_t axis : node.attrs.Ints("perm")) strides.push_back(dense[static_cast<size_t>(axis)]);
  return ReadStrided(graph, node, strides, 0);
}

// Where the elements of a slice are in the whole.
struct SliceWalk {
  Shape strides;
  int64_t base = 0;
};
SliceWalk SliceOf(const Node& node, const Shape& whole) {
  const auto starts = node.attrs.Ints("starts");
  const auto axes = node.attrs.Ints("axes");
  const auto steps = node.attrs.Ints("steps");
  SliceWalk walk{.strides = StridesOf(whole)};
  for (size_t k = 0; k < axes.size(); ++k) {
    int64_t& stride = walk.strides[static_cast<size_t>(axes[k])];
    walk.base += starts[k] * stride;
    stride *= steps[k];
  }
  return walk;
}

absl::StatusOr<Kernel> Slice(const Graph& graph, const Node& node) {
  const SliceWalk walk = SliceOf(node, InType(graph, node, 0).shape);
  return ReadStrided(graph, node, walk.strides, walk.base);
}

absl::StatusOr<Kernel> SliceGrad(const Graph& graph, const Node& node) {
  const SliceWalk walk = SliceOf(node, OutType(graph, node).shape);
  const Shape slice = InType(graph, node, 0).shape;
  const int64_t n = NumElements(OutType(graph, node).shape);
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::fill_n(Out<T>(args), n, T(0));
    Walk(slice, std::array<Shape, 1>{walk.strides},
         [&](int64_t i, const std::array<int64_t, 1>& at) {
           Out<T>(args)[walk.base + at[0]] = In<T>(args, 0)[i];
         });
  });
}

absl::StatusOr<Kernel> Concat(const Graph& graph, const Node& node) {
  const auto axis = static_cast<size_t>(node.attrs.Int("axis", 0));
  const AxisSplit whole = SplitAt(OutType(graph, node).shape, axis);
  std::vector<int64_t> sizes;
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    sizes.push_back(InType(graph, node, k).shape[axis]);
  }
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    int64_t start = 0;
    for (size_t k = 0; k < sizes.size(); ++k) {
      for (int64_t o = 0; o < whole.outer; ++o) {
        std::copy_n(In<T>(args, k) + o * sizes[k] * whole.inner, sizes[k] * whole.inner,
                    Out<T>(args) + whole.at(o, start, 0));
      }
      start += sizes[k];
    }
  });
}

absl::StatusOr<Kernel> Pad(const Graph& graph, const Node& node) {
  const Shape from = InType(graph, node, 0).shape;
  const Shape to = OutType(graph, node).shape;
  const std::vector<int64_t> pads = node.attrs.Ints("pads");
  const double value = node.attrs.Float("value", 0);
  // The common part of both; a negative pad starts inside x, a positive one inside y.
  const Shape from_strides = StridesOf(from), to_strides = StridesOf(to);
  Shape common;
  int64_t from_base = 0, to_base = 0;
  for (size_t d = 0; d < from.size(); ++d) {
    const int64_t before = pads[d], after = pads[from.size() + d];
    common.push_back(from[d] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0));
    from_base += std::max<int64_t>(-before, 0) * from_strides[d];
    to_base += std::max<int64_t>(before, 0) * to_strides[d];
  }
  const auto body = [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::fill_n(Out<T>(args), NumElements(to), static_cast<T>(value));
    Walk(common, std::array<Shape, 2>{from_strides, to_strides},
         [&](int64_t, const std::array<int64_t, 2>& at) {
           Out<T>(args)[to_base + at[1]] = In<T>(args, 0)[from_base + at[0]];
         });
  };
  const DType dtype = OutType(graph, node).dtype;
  if (dtype == DType::kU8 || dtype == DType::kBool) return KernelOf<uint8_t>(body);
  return ForNumber(dtype, body);
}

// ---- Gather: y[o, j, i] = x[o, indices[j], i]

struct Gathering {
  AxisSplit x;
  int64_t count;  // of indices
  DType index_type;

  // The position on x's axis that indices[j] names; -1 when there is none.
  int64_t Index(const void* indices, int64_t j) const {
    int64_t index = index_type == DType::kI32 ? static_cast<const int32_t*>(indices)[j]
                                              : static_cast<const int64_t*>(indices)[j];
    if (index < 0) index += x.size;
    return index < 0 || index >= x.size ? -1 : index;
  }
};

Gathering GatheringOf(const Graph& graph, const Node& node, const Shape& x) {
  const graph::TensorType& indices = InType(graph, node, 1);
  return {SplitAt(x, static_cast<size_t>(node.attrs.Int("axis", 0))), NumElements(indices.shape),
          indices.dtype};
}

absl::StatusOr<Kernel> Gather(const Graph& graph, const Node& node) {
  const Gathering gather = GatheringOf(graph, node, InType(graph, node, 0).shape);
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    T* y = Out<T>(args);
    for (int64_t o = 0; o < gather.x.outer; ++o) {
      for (int64_t j = 0; j < gather.count; ++j) {
        const int64_t index = gather.Index(args.in[1], j);
        for (int64_t i = 0; i < gather.x.inner; ++i) {
          *y++ = index < 0 ? T(0) : In<T>(args, 0)[gather.x.at(o, index, i)];
        }
      }
    }
  });
}

absl::StatusOr<Kernel> GatherGrad(const Graph& graph, const Node& node) {
  const Gathering gather = GatheringOf(graph, node, OutType(graph, node).shape);
  const int64_t n = NumElements(OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::vector<double> dx(static_cast<size_t>(n), 0);
    const T* dy = In<T>(args, 0);
    for (int64_t o = 0; o < gather.x.outer; ++o) {
      for (int64_t j = 0; j < gather.count; ++j) {
        const int64_t index = gather.Index(args.in[1], j);
        for (int64_t i = 0; i < gather.x.inner; ++i, ++dy) {
          if (index >= 0) dx[static_cast<size_t>(gather.x.at(o, index, i))] += *dy;
        }
      }
    }
    std::transform(dx.begin(), dx.end(), Out<T>(args), [](double v) { return static_cast<T>(v); });
  });
}

absl::StatusOr<Kernel> Where(const Graph& graph, const Node& node) {
  const Shape shape = OutType(graph, node).shape;
  std::array<Shape, 3> strides;
  for (size_t k = 0; k < 3; ++k) {
    strides[k] = BroadcastStrides(InType(graph, node, k).shape, shape);
  }
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    Walk(shape, strides, [&](int64_t i, const std::array<int64_t, 3>& at) {
      Out<T>(args)[i] =
          In<uint8_t>(args, 0)[at[0]] != 0 ? In<T>(args, 1)[at[1]] : In<T>(args, 2)[at[2]];
    });
  });
}

// ---- Physical orders of [N,C,S]: plain keeps a channel's positions together, channels last a
// position's channels. Either way the matrices [C,S] of each image are transposed.

enum class Order { kToChannelsLast, kToPlain };

template <Order kOrder>
absl::StatusOr<Kernel> Reorder(const Graph& graph, const Node& node) {
  const AxisSplit split = SplitAt(OutType(graph, node).shape, 1);
  const int64_t rows = kOrder == Order::kToChannelsLast ? split.size : split.inner;
  const int64_t cols = kOrder == Order::kToChannelsLast ? split.inner : split.size;
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t c = 0; c < cols; ++c) {
          Out<T>(args)[o * rows * cols + c * rows + r] =
              In<T>(args, 0)[o * rows * cols + r * cols + c];
        }
      }
    }
  });
}

absl::StatusOr<Kernel> Store(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  return ForMove(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::copy_n(In<T>(args, 1), n, InOut<T>(args, 0));
  });
}

}  // namespace

absl::Span<const KernelRow> Movement() {
  static constexpr KernelRow kRows[] = {
      {"Reshape", CopyKernel},
      {"Transpose", Transpose},
      {"Concat", Concat},
      {"Slice", Slice},
      {"SliceGrad", SliceGrad},
      {"Pad", Pad},
      {"Gather", Gather},
      {"GatherGrad", GatherGrad},
      {"Where", Where},
      {"ToChannelsLast", Reorder<Order::kToChannelsLast>},
      {"ToPlain", Reorder<Order::kToPlain>},
      {"Fetch", CopyKernel},
      {"Store", Store},
  };
  return kRows;
}

}  // namespace ebb::device::ref
