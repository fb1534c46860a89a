// Group normalisation, in plain loops over samples, groups, channels and positions.
#include <cmath>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

struct Form {
  int64_t samples, groups, channels, positions;  // channels: of one group

  int64_t channel(int64_t g, int64_t c) const { return g * channels + c; }
  int64_t at(int64_t n, int64_t g, int64_t c, int64_t s) const {
    return ((n * groups + g) * channels + c) * positions + s;
  }
  double count() const { return static_cast<double>(channels * positions); }
  // f(c, i) for all elements i of a group; c is the channel.
  template <class F>
  void ForGroup(int64_t n, int64_t g, F f) const {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t s = 0; s < positions; ++s) f(channel(g, c), at(n, g, c, s));
    }
  }
};

Form FormOf(const Node& node, const Shape& x) {
  const int64_t groups = node.attrs.Int("groups", 1);
  return {x[0], groups, x[1] / groups, NumElements(Shape(x.begin() + 2, x.end()))};
}

absl::StatusOr<Kernel> Forward(const Graph& graph, const Node& node) {
  const Form form = FormOf(node, InType(graph, node, 0).shape);
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* x = In<T>(args, 0);
    for (int64_t n = 0; n < form.samples; ++n) {
      for (int64_t g = 0; g < form.groups; ++g) {
        double mean = 0, var = 0;
        form.ForGroup(n, g, [&](int64_t, int64_t i) { mean += x[i]; });
        mean /= form.count();
        form.ForGroup(n, g, [&](int64_t, int64_t i) { var += (x[i] - mean) * (x[i] - mean); });
        const double inverse = 1 / std::sqrt(var / form.count() + epsilon);
        form.ForGroup(n, g, [&](int64_t c, int64_t i) {
          Out<T>(args)[i] =
              static_cast<T>((x[i] - mean) * inverse * In<T>(args, 1)[c] + In<T>(args, 2)[c]);
        });
        Out<T>(args, 1)[n * form.groups + g] = static_cast<T>(mean);
        Out<T>(args, 2)[n * form.groups + g] = static_cast<T>(inverse);
      }
    }
  });
}

// With h = (x - mean) inverse and d = dy scale: dx = inverse (d - mean(d) - h mean(d h)).
absl::StatusOr<Kernel> Gradient(const Graph& graph, const Node& node) {
  const Form form = FormOf(node, InType(graph, node, 1).shape);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* dy = In<T>(args, 0);
    const T* x = In<T>(args, 1);
    const T* scale = In<T>(args, 2);
    std::vector<double> dscale(static_cast<size_t>(form.groups * form.channels), 0);
    std::vector<double> dbias = dscale;
    for (int64_t n = 0; n < form.samples; ++n) {
      for (int64_t g = 0; g < form.groups; ++g) {
        const double mean = In<T>(args, 3)[n * form.groups + g];
        const double inverse = In<T>(args, 4)[n * form.groups + g];
        double sum = 0, dot = 0;
        form.ForGroup(n, g, [&](int64_t c, int64_t i) {
          const double h = (x[i] - mean) * inverse;
          dscale[static_cast<size_t>(c)] += dy[i] * h;
          dbias[static_cast<size_t>(c)] += dy[i];
          sum += static_cast<double>(dy[i]) * scale[c];
          dot += static_cast<double>(dy[i]) * scale[c] * h;
        });
        form.ForGroup(n, g, [&](int64_t c, int64_t i) {
          const double h = (x[i] - mean) * inverse;
          const double d = static_cast<double>(dy[i]) * scale[c];
          Out<T>(args)[i] = static_cast<T>(inverse * (d - (sum + h * dot) / form.count()));
        });
      }
    }
    for (size_t c = 0; c < dscale.size(); ++c) {
      Out<T>(args, 1)[c] = static_cast<T>(dscale[c]);
      Out<T>(args, 2)[c] = static_cast<T>(dbias[c]);
    }
  });
}

}  // namespace

absl::Span<const KernelRow> GroupNorm() {
  static constexpr KernelRow kRows[] = {{"GroupNorm", Forward}, {"GroupNormGrad", Gradient}};
  return kRows;
}

}  // namespace ebb::device::ref
