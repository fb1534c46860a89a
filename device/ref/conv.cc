// Grouped convolution of one to three spatial dimensions, and its gradients.
#include "device/ref/common.h"
#include "device/ref/kernels.h"
#include "device/ref/window.h"

namespace ebb::device::ref {
namespace {

// x [N,C,S], w [M,C/g,K], y [N,M,O]
struct ConvShape {
  int64_t batch, channels, filters, groups;
  Window window;

  // Calls f(w_at, x_at, y_at) for every image and pair of filter and input channel that meet: where
  // their planes begin.
  template <class F>
  void ForEachPlane(F f) const {
    const int64_t per_group = channels / groups;
    const int64_t filters_per_group = filters / groups;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t m = 0; m < filters; ++m) {
        for (int64_t c = 0; c < per_group; ++c) {
          const int64_t channel = m / filters_per_group * per_group + c;
          f((m * per_group + c) * window.KernelSize(),
            (n * channels + channel) * window.InputSize(), (n * filters + m) * window.OutputSize());
        }
      }
    }
  }
};

ConvShape ShapeOf(const Node& node, const Shape& x, const Shape& w, const Shape& y) {
  return {x[0], x[1], w[0], node.attrs.Int("groups", 1),
          Window::Of(node.attrs, x, y, absl::MakeConstSpan(w).subspan(2))};
}

template <class T>
void Store(const std::vector<double>& from, T* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<T>(from[i]);
}

absl::StatusOr<Kernel> Conv(const Graph& graph, const Node& node) {
  const ConvShape conv = ShapeOf(node, InType(graph, node, 0).shape, InType(graph, node, 1).shape,
                                 OutType(graph, node).shape);
  const int64_t n = NumElements(OutType(graph, node).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* x = In<T>(args, 0);
    const T* w = In<T>(args, 1);
    std::vector<double> y(static_cast<size_t>(n), 0);
    if (const T* bias = In<T>(args, 2)) {
      for (int64_t i = 0; i < n; ++i) {
        y[static_cast<size_t>(i)] = bias[i / conv.window.OutputSize() % conv.filters];
      }
    }
    conv.ForEachPlane([&](int64_t w_at, int64_t x_at, int64_t y_at) {
      conv.window.ForEach([&](int64_t o, int64_t k, int64_t i) {
        y[static_cast<size_t>(y_at + o)] +=
            static_cast<double>(w[w_at + k]) * static_cast<double>(x[x_at + i]);
      });
    });
    Store(y, Out<T>(args));
  });
}

absl::StatusOr<Kernel> ConvGradInput(const Graph& graph, const Node& node) {
  const Shape x = OutType(graph, node).shape;
  const ConvShape conv =
      ShapeOf(node, x, InType(graph, node, 1).shape, InType(graph, node, 0).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* dy = In<T>(args, 0);
    const T* w = In<T>(args, 1);
    std::vector<double> dx(static_cast<size_t>(NumElements(x)), 0);
    conv.ForEachPlane([&](int64_t w_at, int64_t x_at, int64_t y_at) {
      conv.window.ForEach([&](int64_t o, int64_t k, int64_t i) {
        dx[static_cast<size_t>(x_at + i)] +=
            static_cast<double>(w[w_at + k]) * static_cast<double>(dy[y_at + o]);
      });
    });
    Store(dx, Out<T>(args));
  });
}

absl::StatusOr<Kernel> ConvGradWeight(const Graph& graph, const Node& node) {
  const Shape w = OutType(graph, node).shape;
  const ConvShape conv =
      ShapeOf(node, InType(graph, node, 1).shape, w, InType(graph, node, 0).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* dy = In<T>(args, 0);
    const T* x = In<T>(args, 1);
    std::vector<double> dw(static_cast<size_t>(NumElements(w)), 0);
    conv.ForEachPlane([&](int64_t w_at, int64_t x_at, int64_t y_at) {
      conv.window.ForEach([&](int64_t o, int64_t k, int64_t i) {
        dw[static_cast<size_t>(w_at + k)] +=
            static_cast<double>(dy[y_at + o]) * static_cast<double>(x[x_at + i]);
      });
    });
    Store(dw, Out<T>(args));
  });
}

}  // namespace

absl::Span<const KernelRow> Conv() {
  static constexpr KernelRow kRows[] = {
      {"Conv", Conv}, {"ConvGradInput", ConvGradInput}, {"ConvGradWeight", ConvGradWeight}};
  return kRows;
}

}  // namespace ebb::device::ref
