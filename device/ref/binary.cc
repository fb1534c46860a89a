// Broadcasting ops of two tensors, the sum of many, broadcasting up and summing down.
#include <cmath>
#include <type_traits>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

template <class F>
absl::StatusOr<Kernel> OfNumbers(const Graph& graph, const Node& node, F f) {
  return ForNumber(OutType(graph, node).dtype, BroadcastBody(graph, node, f));
}
template <class F>
absl::StatusOr<Kernel> OfFloats(const Graph& graph, const Node& node, F f) {
  return ForFloat(OutType(graph, node).dtype, BroadcastBody(graph, node, f));
}

// Integers wrap around, by arithmetic on unsigned words.
template <class T, class F>
T Wrapping(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(f(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
  } else {
    return f(a, b);
  }
}

absl::StatusOr<Kernel> Add(const Graph& g, const Node& n) {
  return OfNumbers(
      g, n, [](auto a, auto b) { return Wrapping(a, b, [](auto x, auto y) { return x + y; }); });
}
absl::StatusOr<Kernel> Sub(const Graph& g, const Node& n) {
  return OfNumbers(
      g, n, [](auto a, auto b) { return Wrapping(a, b, [](auto x, auto y) { return x - y; }); });
}
absl::StatusOr<Kernel> Mul(const Graph& g, const Node& n) {
  return OfNumbers(
      g, n, [](auto a, auto b) { return Wrapping(a, b, [](auto x, auto y) { return x * y; }); });
}
// Integers round towards zero; what they cannot say (x / 0) is 0.
absl::StatusOr<Kernel> Div(const Graph& g, const Node& n) {
  return OfNumbers(g, n, [](auto a, auto b) {
    using T = decltype(a);
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return T(0);
      if (b == -1) return Wrapping(T(0), a, [](auto x, auto y) { return x - y; });
    }
    return static_cast<T>(a / b);
  });
}
// The remainder has the divisor's sign, or with fmod the dividend's; by 0 it is 0 of integers.
absl::StatusOr<Kernel> Mod(const Graph& g, const Node& n) {
  const bool fmod = n.attrs.Int("fmod", 0) != 0;
  return OfNumbers(g, n, [fmod](auto a, auto b) {
    using T = decltype(a);
    if constexpr (std::is_integral_v<T>) {
      if (b == 0 || b == -1) return T(0);
      const T rest = static_cast<T>(a % b);
      return rest != 0 && !fmod && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
    } else {
      const T rest = std::fmod(a, b);
      return rest != 0 && !fmod && (rest < 0) != (b < 0) ? rest + b : rest;
    }
  });
}
absl::StatusOr<Kernel> Max(const Graph& g, const Node& n) {
  return OfNumbers(g, n, [](auto a, auto b) { return a >= b || a != a ? a : b; });
}
absl::StatusOr<Kernel> Min(const Graph& g, const Node& n) {
  return OfNumbers(g, n, [](auto a, auto b) { return b >= a || a != a ? a : b; });
}
absl::StatusOr<Kernel> Pow(const Graph& g, const Node& n) {
  return OfFloats(g, n, [](auto a, auto b) {
    return static_cast<decltype(a)>(std::pow(static_cast<double>(a), static_cast<double>(b)));
  });
}
absl::StatusOr<Kernel> GreaterEqual(const Graph& g, const Node& n) {
  return OfFloats(g, n, [](auto a, auto b) { return decltype(a)(a >= b ? 1 : 0); });
}

absl::StatusOr<Kernel> AddN(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [n](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      double sum = 0;
      for (size_t k = 0; k < args.in.size(); ++k) sum += In<T>(args, k)[i];
      Out<T>(args)[i] = static_cast<T>(sum);
    }
  });
}

absl::StatusOr<Kernel> SumTo(const Graph& graph, const Node& node) {
  const Shape from = InType(graph, node, 0).shape;
  const Shape to = OutType(graph, node).shape;
  const std::array<Shape, 1> strides = {BroadcastStrides(to, from)};
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    std::vector<double> sums(static_cast<size_t>(NumElements(to)), 0);
    Walk(from, strides, [&](int64_t i, const std::array<int64_t, 1>& at) {
      sums[static_cast<size_t>(at[0])] += In<T>(args, 0)[i];
    });
    for (size_t i = 0; i < sums.size(); ++i) Out<T>(args)[i] = static_cast<T>(sums[i]);
  });
}

absl::StatusOr<Kernel> Expand(const Graph& graph, const Node& node) {
  const Shape to = OutType(graph, node).shape;
  const std::array<Shape, 1> strides = {BroadcastStrides(InType(graph, node, 0).shape, to)};
  return ForMove(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    Walk(to, strides, [&](int64_t i, const std::array<int64_t, 1>& at) {
      Out<T>(args)[i] = In<T>(args, 0)[at[0]];
    });
  });
}

}  // namespace

absl::Span<const KernelRow> Binary() {
  static constexpr KernelRow kRows[] = {
      {"Mod", Mod},     {"Add", Add},
      {"Sub", Sub},     {"Mul", Mul},
      {"Div", Div},     {"Pow", Pow},
      {"Max", Max},     {"Min", Min},
      {"AddN", AddN},   {"GreaterEqual", GreaterEqual},
      {"SumTo", SumTo}, {"Expand", Expand},
  };
  return kRows;
}

}  // namespace ebb::device::ref
