// Max and average pooling.
#include <algorithm>

#include "device/ref/common.h"
#include "device/ref/kernels.h"
#include "device/ref/window.h"

namespace ebb::device::ref {
namespace {

// The window, and how many planes (image, channel) it slides over.
struct Pooling {
  int64_t planes;
  Window window;
};

Pooling PoolingOf(const Node& node, const Shape& x, const Shape& y) {
  return {x[0] * x[1], Window::Of(node.attrs, x, y, node.attrs.Ints("kernel"))};
}

absl::StatusOr<Kernel> MaxPool(const Graph& graph, const Node& node) {
  const Pooling pool = PoolingOf(node, InType(graph, node, 0).shape, OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t plane = 0; plane < pool.planes; ++plane) {
      const T* x = In<T>(args, 0) + plane * pool.window.InputSize();
      T* y = Out<T>(args) + plane * pool.window.OutputSize();
      auto* argmax = Out<uint8_t>(args, 1) + plane * pool.window.OutputSize();
      int64_t seen = -1;  // the output position whose window has been begun
      pool.window.ForEach([&](int64_t o, int64_t k, int64_t i) {
        // A NaN wins over what comes before it and is not beaten.
        if (o != seen || x[i] > y[o] || (x[i] != x[i] && y[o] == y[o])) {
          y[o] = x[i];
          argmax[o] = static_cast<uint8_t>(k);
        }
        seen = o;
      });
    }
  });
}

absl::StatusOr<Kernel> MaxPoolGrad(const Graph& graph, const Node& node) {
  const Pooling pool = PoolingOf(node, OutType(graph, node).shape, InType(graph, node, 0).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t plane = 0; plane < pool.planes; ++plane) {
      const T* dy = In<T>(args, 0) + plane * pool.window.OutputSize();
      const auto* argmax = In<uint8_t>(args, 1) + plane * pool.window.OutputSize();
      std::vector<double> dx(static_cast<size_t>(pool.window.InputSize()), 0);
      pool.window.ForEach([&](int64_t o, int64_t k, int64_t i) {
        if (argmax[o] == k) dx[static_cast<size_t>(i)] += dy[o];
      });
      std::transform(dx.begin(), dx.end(), Out<T>(args) + plane * pool.window.InputSize(),
                     [](double value) { return static_cast<T>(value); });
    }
  });
}

// How many positions of each output's window are inside the input extended by `counted_pads`.
std::vector<double> Divisors(const Node& node, const Window& window) {
  const size_t spatial = node.attrs.Ints("kernel").size();
  const auto counted = node.attrs.Ints("counted_pads", std::vector<int64_t>(2 * spatial, 0));
  // The same windows over the extended input: more of it is inside, less is padding.
  Window extended = window;
  for (size_t s = 0; s < spatial; ++s) {
    const size_t d = 3 - spatial + s;
    extended.input[d] += counted[s] + counted[spatial + s];
    extended.pads_begin[d] -= counted[s];
  }
  std::vector<double> divisors(static_cast<size_t>(window.OutputSize()), 0);
  extended.ForEach([&](int64_t o, int64_t, int64_t) { ++divisors[static_cast<size_t>(o)]; });
  return divisors;
}

absl::StatusOr<Kernel> AveragePool(const Graph& graph, const Node& node) {
  const Pooling pool = PoolingOf(node, InType(graph, node, 0).shape, OutType(graph, node).shape);
  const std::vector<double> divisors = Divisors(node, pool.window);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t plane = 0; plane < pool.planes; ++plane) {
      const T* x = In<T>(args, 0) + plane * pool.window.InputSize();
      T* y = Out<T>(args) + plane * pool.window.OutputSize();
      std::vector<double> sums(divisors.size(), 0);
      pool.window.ForEach(
          [&](int64_t o, int64_t, int64_t i) { sums[static_cast<size_t>(o)] += x[i]; });
      for (size_t o = 0; o < sums.size(); ++o) y[o] = static_cast<T>(sums[o] / divisors[o]);
    }
  });
}

absl::StatusOr<Kernel> AveragePoolGrad(const Graph& graph, const Node& node) {
  const Pooling pool = PoolingOf(node, OutType(graph, node).shape, InType(graph, node, 0).shape);
  const std::vector<double> divisors = Divisors(node, pool.window);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t plane = 0; plane < pool.planes; ++plane) {
      const T* dy = In<T>(args, 0) + plane * pool.window.OutputSize();
      std::vector<double> dx(static_cast<size_t>(pool.window.InputSize()), 0);
      pool.window.ForEach([&](int64_t o, int64_t, int64_t i) {
        dx[static_cast<size_t>(i)] += dy[o] / divisors[static_cast<size_t>(o)];
      });
      std::transform(dx.begin(), dx.end(), Out<T>(args) + plane * pool.window.InputSize(),
                     [](double value) { return static_cast<T>(value); });
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Pool() {
  static constexpr KernelRow kRows[] = {{"MaxPool", MaxPool},
                                        {"MaxPoolGrad", MaxPoolGrad},
                                        {"AveragePool", AveragePool},
                                        {"AveragePoolGrad", AveragePoolGrad}};
  return kRows;
}

}  // namespace ebb::device::ref
