// Elements and slices by index, and ops along one axis that find or count positions. Indices below
// 0 count from the end; what is out of range is read as zero and not written.
#include <algorithm>
#include <numeric>
#include <string>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// Where every index (or tuple of indices) points in x: the offset of its slice, -1 for nowhere.
struct Pointers {
  Shape x;
  Shape indices;
  DType type = DType::kI64;
  int64_t slice = 1;  // elements
  int64_t axis = -1;  // of GatherElements and its kin; -1: the last axis of `indices` is a tuple
  int64_t batch = 0;  // leading axes that both have

  int64_t At(const void* data, int64_t i) const {
    return type == DType::kI32 ? static_cast<const int32_t*>(data)[i]
                               : static_cast<const int64_t*>(data)[i];
  }
  // The position on axis d of x that index i names; -1 when there is none.
  int64_t Position(const void* data, int64_t i, size_t d) const {
    int64_t index = At(data, i);
    if (index < 0) index += x[d];
    return index < 0 || index >= x[d] ? -1 : index;
  }

  // f(j, offset) for all slices j in order.
  template <class F>
  void ForEach(const void* data, F f) const {
    const Shape strides = StridesOf(x);
    if (axis >= 0) {
      Shape others = strides;
      others[static_cast<size_t>(axis)] = 0;
      Walk(indices, std::array<Shape, 1>{others}, [&](int64_t j, const std::array<int64_t, 1>& at) {
        const int64_t position = Position(data, j, static_cast<size_t>(axis));
        f(j, position < 0 ? -1 : at[0] + position * strides[static_cast<size_t>(axis)]);
      });
      return;
    }
    const int64_t depth = indices.back();
    int64_t batches = 1;
    for (int64_t d = 0; d < batch; ++d) batches *= indices[static_cast<size_t>(d)];
    const int64_t count = NumElements(indices) / depth;
    for (int64_t j = 0; j < count; ++j) {
      const int64_t b = j / (count / batches);
      int64_t offset = b * (NumElements(x) / batches);
      for (int64_t k = 0; k < depth && offset >= 0; ++k) {
        const auto d = static_cast<size_t>(batch + k);
        const int64_t position = Position(data, j * depth + k, d);
        offset = position < 0 ? -1 : offset + position * strides[d];
      }
      f(j, offset);
    }
  }
};

Pointers PointersOf(const Graph& graph, const Node& node, const Shape& x) {
  const graph::TensorType& indices = InType(graph, node, 1);
  Pointers pointers{x, indices.shape, indices.dtype};
  pointers.axis = node.attrs.Int("axis", -1);
  pointers.batch = node.attrs.Int("batch_dims", 0);
  if (pointers.axis < 0) {
    for (auto d = static_cast<size_t>(pointers.batch + indices.shape.back()); d < x.size(); ++d) {
      pointers.slice *= x[d];
    }
  }
  return pointers;
}

absl::StatusOr<Kernel> Gather(const Graph& graph, const Node& node) {
  const Pointers pointers = PointersOf(graph, node, InType(graph, node, 0).shape);
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    pointers.ForEach(args.in[1], [&](int64_t j, int64_t offset) {
      for (int64_t i = 0; i < pointers.slice; ++i) {
        Out<T>(args)[j * pointers.slice + i] = offset < 0 ? T(0) : In<T>(args, 0)[offset + i];
      }
    });
  });
}

absl::StatusOr<Kernel> GatherGrad(const Graph& graph, const Node& node) {
  const Pointers pointers = PointersOf(graph, node, OutType(graph, node).shape);
  const int64_t n = NumElements(OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::vector<double> dx(static_cast<size_t>(n), 0);
    pointers.ForEach(args.in[1], [&](int64_t j, int64_t offset) {
      for (int64_t i = 0; offset >= 0 && i < pointers.slice; ++i) {
        dx[static_cast<size_t>(offset + i)] += In<T>(args, 0)[j * pointers.slice + i];
      }
    });
    std::transform(dx.begin(), dx.end(), Out<T>(args), [](double v) { return static_cast<T>(v); });
  });
}

// f(old, update) -> new
template <class T, class F>
Kernel ScatterOf(const Pointers& pointers, F f) {
  return *KernelOf<T>([=](T, const KernelArgs& args) {
    if (args.in[0] != args.out[0]) {
      std::copy_n(In<T>(args, 0), NumElements(pointers.x), Out<T>(args));
    }
    pointers.ForEach(args.in[1], [&](int64_t j, int64_t offset) {
      for (int64_t i = 0; offset >= 0 && i < pointers.slice; ++i) {
        T& y = Out<T>(args)[offset + i];
        y = static_cast<T>(f(y, In<T>(args, 2)[j * pointers.slice + i]));
      }
    });
  });
}

template <class T>
absl::StatusOr<Kernel> ScatterComputing(const Pointers& pointers, const std::string& reduction) {
  // Integers wrap around.
  using U = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
  if (reduction == "add") return ScatterOf<T>(pointers, [](T a, T b) { return U(a) + U(b); });
  if (reduction == "mul") return ScatterOf<T>(pointers, [](T a, T b) { return U(a) * U(b); });
  if (reduction == "max") {
    return ScatterOf<T>(pointers, [](T a, T b) { return a >= b || a != a ? a : b; });
  }
  return ScatterOf<T>(pointers, [](T a, T b) { return b >= a || a != a ? a : b; });
}

absl::StatusOr<Kernel> Scatter(const Graph& graph, const Node& node) {
  const Pointers pointers = PointersOf(graph, node, InType(graph, node, 0).shape);
  const std::string reduction = node.attrs.Str("reduction", "none");
  const DType dtype = OutType(graph, node).dtype;
  if (reduction == "none") {
    const auto second = [](auto, auto b) { return b; };
    switch (graph::SizeOf(dtype).count()) {
      case 1:
        return ScatterOf<uint8_t>(pointers, second);
      case 4:
        return ScatterOf<uint32_t>(pointers, second);
      default:
        return ScatterOf<uint64_t>(pointers, second);
    }
  }
  switch (dtype) {
    case DType::kF32:
      return ScatterComputing<float>(pointers, reduction);
    case DType::kF64:
      return ScatterComputing<double>(pointers, reduction);
    case DType::kI32:
      return ScatterComputing<int32_t>(pointers, reduction);
    case DType::kI64:
      return ScatterComputing<int64_t>(pointers, reduction);
    default:
      return NoKernelFor(dtype);
  }
}

absl::StatusOr<Kernel> CumSum(const Graph& graph, const Node& node) {
  const AxisSplit split =
      SplitAt(OutType(graph, node).shape, static_cast<size_t>(node.attrs.Int("axis", 0)));
  const bool exclusive = node.attrs.Int("exclusive", 0) != 0;
  const bool reverse = node.attrs.Int("reverse", 0) != 0;
  return ForNumber(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    using Sum = std::conditional_t<std::is_integral_v<T>, uint64_t, double>;
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        Sum sum = 0;
        for (int64_t step = 0; step < split.size; ++step) {
          const int64_t at = split.at(o, reverse ? split.size - 1 - step : step, i);
          const Sum x = static_cast<Sum>(In<T>(args, 0)[at]);
          if (!exclusive) sum += x;
          Out<T>(args)[at] = static_cast<T>(sum);
          if (exclusive) sum += x;
        }
      }
    }
  });
}

// Does value a come before b? Not a number is above all numbers, as in PyTorch.
template <class T>
bool Before(T a, T b, bool largest) {
  if (a != a || b != b) return largest ? a != a && b == b : b != b && a == a;
  return largest ? a > b : a < b;
}

absl::StatusOr<Kernel> TopK(const Graph& graph, const Node& node) {
  const auto axis = static_cast<size_t>(node.attrs.Int("axis", 0));
  const AxisSplit from = SplitAt(InType(graph, node, 0).shape, axis);
  const AxisSplit to = SplitAt(OutType(graph, node).shape, axis);
  const bool largest = node.attrs.Int("largest", 1) != 0;
  return ForNumber(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::vector<int64_t> order(static_cast<size_t>(from.size));
    for (int64_t o = 0; o < from.outer; ++o) {
      for (int64_t i = 0; i < from.inner; ++i) {
        const auto value = [&](int64_t a) { return In<T>(args, 0)[from.at(o, a, i)]; };
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int64_t a, int64_t b) { return Before(value(a), value(b), largest); });
        for (int64_t k = 0; k < to.size; ++k) {
          Out<T>(args, 0)[to.at(o, k, i)] = value(order[static_cast<size_t>(k)]);
          Out<int64_t>(args, 1)[to.at(o, k, i)] = order[static_cast<size_t>(k)];
        }
      }
    }
  });
}

template <bool kMax>
absl::StatusOr<Kernel> Arg(const Graph& graph, const Node& node) {
  const AxisSplit split =
      SplitAt(InType(graph, node, 0).shape, static_cast<size_t>(node.attrs.Int("axis", 0)));
  const bool last = node.attrs.Int("last", 0) != 0;
  return ForNumber(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const auto value = [&](int64_t a) { return In<T>(args, 0)[split.at(o, a, i)]; };
        // Here not a number wins either way.
        const auto wins = [&](T a, T b) { return a != a ? b == b : Before(a, b, kMax) && b == b; };
        int64_t best = 0;
        for (int64_t a = 1; a < split.size; ++a) {
          if (wins(value(a), value(best)) || (last && !wins(value(best), value(a)))) best = a;
        }
        Out<int64_t>(args)[o * split.inner + i] = best;
      }
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Index() {
  static constexpr KernelRow kRows[] = {
      {"GatherElements", Gather},   {"GatherElementsGrad", GatherGrad},
      {"ScatterElements", Scatter}, {"GatherND", Gather},
      {"GatherNDGrad", GatherGrad}, {"ScatterND", Scatter},
      {"CumSum", CumSum},           {"TopK", TopK},
      {"ArgMax", Arg<true>},        {"ArgMin", Arg<false>},
  };
  return kRows;
}

}  // namespace ebb::device::ref
