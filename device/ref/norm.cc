// Batch, layer and local response normalisation, softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "device/ref/common.h"
#include "device/ref/kernels.h"

namespace ebb::device::ref {
namespace {

// ---- Batch normalisation. x [N,C,S] is split at its channels: (image, channel, position).

// f(i) for all elements i of channel c.
template <class F>
void ForChannel(const AxisSplit& x, int64_t c, F f) {
  for (int64_t o = 0; o < x.outer; ++o) {
    for (int64_t i = 0; i < x.inner; ++i) f(x.at(o, c, i));
  }
}

// y = (x - mean) scale / sqrt(var + epsilon) + bias, of channel c.
template <class T>
void NormalizeChannel(const AxisSplit& split, int64_t c, double epsilon, const KernelArgs& args,
                      double mean, double var) {
  const double slope = In<T>(args, 1)[c] / std::sqrt(var + epsilon);
  ForChannel(split, c, [&](int64_t i) {
    Out<T>(args)[i] = static_cast<T>((In<T>(args, 0)[i] - mean) * slope + In<T>(args, 2)[c]);
  });
}

absl::StatusOr<Kernel> BatchNorm(const Graph& graph, const Node& node) {
  const AxisSplit split = SplitAt(InType(graph, node, 0).shape, 1);
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  const double momentum = node.attrs.Float("momentum", 0.1);
  const auto count = static_cast<double>(split.outer * split.inner);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* x = In<T>(args, 0);
    for (int64_t c = 0; c < split.size; ++c) {
      double mean = 0;
      ForChannel(split, c, [&](int64_t i) { mean += x[i]; });
      mean /= count;
      double var = 0;
      ForChannel(split, c, [&](int64_t i) { var += (x[i] - mean) * (x[i] - mean); });
      var /= count;
      // By the statistics as they are put out, so that BatchNormInference makes the same y of them.
      Out<T>(args, 1)[c] = static_cast<T>(mean);
      Out<T>(args, 2)[c] = static_cast<T>(var);
      NormalizeChannel<T>(split, c, epsilon, args, Out<T>(args, 1)[c], Out<T>(args, 2)[c]);
      const double unbiased = count > 1 ? var * count / (count - 1) : var;
      T& running_mean = InOut<T>(args, 3)[c];
      T& running_var = InOut<T>(args, 4)[c];
      running_mean = static_cast<T>((1 - momentum) * running_mean + momentum * mean);
      running_var = static_cast<T>((1 - momentum) * running_var + momentum * unbiased);
    }
  });
}

// (dy, x, scale, mean, var) -> dx, dscale, dbias. With h = (x - mean) / std the normalised x:
// dbias = sum dy, dscale = sum dy h, and dx = scale / std (dy - dbias / n - h dscale / n); the last
// two terms are absent when the statistics do not depend on x (inference).
template <bool kInference>
absl::StatusOr<Kernel> BatchNormGrad(const Graph& graph, const Node& node) {
  const AxisSplit split = SplitAt(InType(graph, node, 1).shape, 1);
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  const auto count = static_cast<double>(split.outer * split.inner);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* dy = In<T>(args, 0);
    const T* x = In<T>(args, 1);
    for (int64_t c = 0; c < split.size; ++c) {
      const double mean = In<T>(args, 3)[c];
      const double inverse = 1 / std::sqrt(In<T>(args, 4)[c] + epsilon);
      double dbias = 0, dscale = 0;
      ForChannel(split, c, [&](int64_t i) {
        dbias += dy[i];
        dscale += dy[i] * (x[i] - mean) * inverse;
      });
      ForChannel(split, c, [&](int64_t i) {
        double d = dy[i];
        if (!kInference) d -= (dbias + (x[i] - mean) * inverse * dscale) / count;
        Out<T>(args)[i] = static_cast<T>(In<T>(args, 2)[c] * inverse * d);
      });
      Out<T>(args, 1)[c] = static_cast<T>(dscale);
      Out<T>(args, 2)[c] = static_cast<T>(dbias);
    }
  });
}

absl::StatusOr<Kernel> BatchNormInference(const Graph& graph, const Node& node) {
  const AxisSplit split = SplitAt(InType(graph, node, 0).shape, 1);
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t c = 0; c < split.size; ++c) {
      NormalizeChannel<T>(split, c, epsilon, args, In<T>(args, 3)[c], In<T>(args, 4)[c]);
    }
  });
}

// ---- Layer normalisation: x is rows of what is normalised together. A row is read before it is
// written, so that y may be x, and dx may be dy.

struct LayerForm {
  LayerForm(const Shape& x, int64_t axis)
      : size(NumElements(Shape(x.begin() + axis, x.end()))), rows(NumElements(x) / size) {}
  int64_t size, rows;
};

absl::StatusOr<Kernel> LayerNorm(const Graph& graph, const Node& node) {
  const LayerForm form(InType(graph, node, 0).shape, node.attrs.Int("axis", 0));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* scale = In<T>(args, 1);
    const T* bias = In<T>(args, 2);
    for (int64_t r = 0; r < form.rows; ++r) {
      const T* x = In<T>(args, 0) + r * form.size;
      T* y = Out<T>(args) + r * form.size;
      double mean = 0;
      for (int64_t i = 0; i < form.size; ++i) mean += x[i];
      mean /= static_cast<double>(form.size);
      double var = 0;
      for (int64_t i = 0; i < form.size; ++i) var += (x[i] - mean) * (x[i] - mean);
      const double inverse = 1 / std::sqrt(var / static_cast<double>(form.size) + epsilon);
      for (int64_t i = 0; i < form.size; ++i) {
        y[i] = static_cast<T>((x[i] - mean) * inverse * scale[i] + (bias ? bias[i] : 0));
      }
      Out<T>(args, 1)[r] = static_cast<T>(mean);
      Out<T>(args, 2)[r] = static_cast<T>(inverse);
    }
  });
}

// (dy, x, scale, mean, inv_std) -> dx, dscale, dbias. With h = (x - mean) inv_std: dbias = sum dy
// and dscale = sum dy h over the rows; in a row, with g = dy scale, dx = inv_std (g - mean(g) - h
// mean(g h)).
absl::StatusOr<Kernel> LayerNormGrad(const Graph& graph, const Node& node) {
  const LayerForm form(InType(graph, node, 1).shape, node.attrs.Int("axis", 0));
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const auto n = static_cast<size_t>(form.size);
    std::vector<double> dscale(n), dbias(n);
    for (int64_t r = 0; r < form.rows; ++r) {
      const T* dy = In<T>(args, 0) + r * form.size;
      const T* x = In<T>(args, 1) + r * form.size;
      const double mean = In<T>(args, 3)[r], inverse = In<T>(args, 4)[r];
      double sum = 0, dot = 0;
      for (size_t i = 0; i < n; ++i) {
        const double h = (x[i] - mean) * inverse, g = static_cast<double>(dy[i]);
        dscale[i] += g * h;
        dbias[i] += g;
        sum += g * In<T>(args, 2)[i];
        dot += g * In<T>(args, 2)[i] * h;
      }
      for (size_t i = 0; i < n; ++i) {
        const double h = (x[i] - mean) * inverse;
        const double g = static_cast<double>(dy[i]) * In<T>(args, 2)[i];
        Out<T>(args)[r * form.size + static_cast<int64_t>(i)] =
            static_cast<T>(inverse * (g - (sum + h * dot) / static_cast<double>(n)));
      }
    }
    for (size_t i = 0; i < n; ++i) {
      Out<T>(args, 1)[i] = static_cast<T>(dscale[i]);
      Out<T>(args, 2)[i] = static_cast<T>(dbias[i]);
    }
  });
}

// ---- Root mean square normalisation: y = x inv_rms scale, row by row.

absl::StatusOr<Kernel> RmsNorm(const Graph& graph, const Node& node) {
  const LayerForm form(InType(graph, node, 0).shape, node.attrs.Int("axis", 0));
  const double epsilon = node.attrs.Float("epsilon", 1e-5);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t r = 0; r < form.rows; ++r) {
      const T* x = In<T>(args, 0) + r * form.size;
      double square = 0;
      for (int64_t i = 0; i < form.size; ++i) square += static_cast<double>(x[i]) * x[i];
      const double inverse = 1 / std::sqrt(square / static_cast<double>(form.size) + epsilon);
      for (int64_t i = 0; i < form.size; ++i) {
        Out<T>(args)[r * form.size + i] = static_cast<T>(x[i] * inverse * In<T>(args, 1)[i]);
      }
      Out<T>(args, 1)[r] = static_cast<T>(inverse);
    }
  });
}

// (dy, x, scale, inv_rms) -> dx, dscale. With h = x inv_rms: dscale = sum dy h over the rows; in a
// row, with g = dy scale, dx = inv_rms (g - h mean(g h)).
absl::StatusOr<Kernel> RmsNormGrad(const Graph& graph, const Node& node) {
  const LayerForm form(InType(graph, node, 1).shape, node.attrs.Int("axis", 0));
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const auto n = static_cast<size_t>(form.size);
    std::vector<double> dscale(n);
    for (int64_t r = 0; r < form.rows; ++r) {
      const T* dy = In<T>(args, 0) + r * form.size;
      const T* x = In<T>(args, 1) + r * form.size;
      const double inverse = In<T>(args, 3)[r];
      double dot = 0;
      for (size_t i = 0; i < n; ++i) {
        const double h = x[i] * inverse;
        dscale[i] += dy[i] * h;
        dot += dy[i] * h * In<T>(args, 2)[i];
      }
      for (size_t i = 0; i < n; ++i) {
        const double g = static_cast<double>(dy[i]) * In<T>(args, 2)[i];
        Out<T>(args)[r * form.size + static_cast<int64_t>(i)] =
            static_cast<T>(inverse * (g - x[i] * inverse * dot / static_cast<double>(n)));
      }
    }
    for (size_t i = 0; i < n; ++i) Out<T>(args, 1)[i] = static_cast<T>(dscale[i]);
  });
}

// ---- Local response normalisation (ONNX): y_c = x_c s_c^-beta with
// s_c = bias + alpha / size * sum of x_k^2 over the channels k of c's window.

struct LrnWindow {
  explicit LrnWindow(const Node& node)
      : before((node.attrs.Int("size", 1) - 1) / 2),
        after(node.attrs.Int("size", 1) - 1 - before),
        scale(node.attrs.Float("alpha", 1e-4) / static_cast<double>(before + after + 1)),
        beta(node.attrs.Float("beta", 0.75)),
        bias(node.attrs.Float("bias", 1)) {}
  int64_t before, after;
  double scale, beta, bias;

  template <class T>
  double Denominator(const T* x, const AxisSplit& split, int64_t o, int64_t c, int64_t i) const {
    double sum = 0;
    for (int64_t k = std::max<int64_t>(0, c - before); k <= std::min(split.size - 1, c + after);
         ++k) {
      const double value = x[split.at(o, k, i)];
      sum += value * value;
    }
    return bias + scale * sum;
  }
};

// f(o, c, i) for all elements.
template <class F>
void ForAll(const AxisSplit& split, F f) {
  for (int64_t o = 0; o < split.outer; ++o) {
    for (int64_t c = 0; c < split.size; ++c) {
      for (int64_t i = 0; i < split.inner; ++i) f(o, c, i);
    }
  }
}

absl::StatusOr<Kernel> Lrn(const Graph& graph, const Node& node) {
  const AxisSplit split = SplitAt(OutType(graph, node).shape, 1);
  const LrnWindow window(node);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* x = In<T>(args, 0);
    ForAll(split, [&](int64_t o, int64_t c, int64_t i) {
      const double s = window.Denominator(x, split, o, c, i);
      const int64_t at = split.at(o, c, i);
      Out<T>(args)[at] = static_cast<T>(x[at] * std::pow(s, -window.beta));
    });
  });
}

// dx_k = dy_k s_k^-beta - 2 beta scale x_k * sum over the c whose window has k: dy_c x_c
// s_c^(-beta-1)
absl::StatusOr<Kernel> LrnGrad(const Graph& graph, const Node& node) {
  const AxisSplit split = SplitAt(OutType(graph, node).shape, 1);
  const LrnWindow window(node);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* dy = In<T>(args, 0);
    const T* x = In<T>(args, 1);
    ForAll(split, [&](int64_t o, int64_t k, int64_t i) {
      double through = 0;
      for (int64_t c = std::max<int64_t>(0, k - window.after);
           c <= std::min(split.size - 1, k + window.before); ++c) {
        const int64_t at = split.at(o, c, i);
        const double s = window.Denominator(x, split, o, c, i);
        through += static_cast<double>(dy[at]) * x[at] * std::pow(s, -window.beta - 1);
      }
      const int64_t at = split.at(o, k, i);
      const double s = window.Denominator(x, split, o, k, i);
      Out<T>(args)[at] = static_cast<T>(dy[at] * std::pow(s, -window.beta) -
                                        2 * window.beta * window.scale * x[at] * through);
    });
  });
}

// ---- Softmax over one axis; rows are read before they are written, so that it works in place.

// body(T(), args, line, row): `line(a)` is the offset of element a of a row, `row` a buffer for it.
template <class Body>
absl::StatusOr<Kernel> ForLines(const Graph& graph, const Node& node, Body body) {
  const AxisSplit split =
      SplitAt(OutType(graph, node).shape, static_cast<size_t>(node.attrs.Int("axis", 0)));
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    std::vector<double> row(static_cast<size_t>(split.size));
    for (int64_t o = 0; o < split.outer; ++o) {
      for (int64_t i = 0; i < split.inner; ++i) {
        const auto line = [&](size_t a) { return split.at(o, static_cast<int64_t>(a), i); };
        body(zero, args, line, &row);
      }
    }
  });
}

enum class SoftmaxKind { kProbability, kLog };

template <SoftmaxKind kKind>
absl::StatusOr<Kernel> Softmax(const Graph& graph, const Node& node) {
  const bool zero_masked = node.attrs.Int("zero_masked", 0) != 0;
  return ForLines(
      graph, node, [zero_masked](auto zero, const KernelArgs& args, auto line, auto* row) {
        using T = decltype(zero);
        double max = In<T>(args, 0)[line(0)];
        for (size_t a = 0; a < row->size(); ++a) {
          (*row)[a] = In<T>(args, 0)[line(a)];
          max = std::max(max, (*row)[a]);
        }
        if (zero_masked && max == -std::numeric_limits<double>::infinity()) {
          for (size_t a = 0; a < row->size(); ++a) Out<T>(args)[line(a)] = 0;
          return;
        }
        double sum = 0;
        for (double value : *row) sum += std::exp(value - max);
        for (size_t a = 0; a < row->size(); ++a) {
          const double log = (*row)[a] - max - std::log(sum);
          Out<T>(args)[line(a)] =
              static_cast<T>(kKind == SoftmaxKind::kLog ? log : std::exp((*row)[a] - max) / sum);
        }
      });
}

// From dy and the output y: dx = y (dy - sum dy y), or dy - e^y sum dy for the logarithm.
template <SoftmaxKind kKind>
absl::StatusOr<Kernel> SoftmaxGrad(const Graph& graph, const Node& node) {
  return ForLines(graph, node, [](auto zero, const KernelArgs& args, auto line, auto* row) {
    using T = decltype(zero);
    double sum = 0;
    for (size_t a = 0; a < row->size(); ++a) {
      const double dy = In<T>(args, 0)[line(a)];
      sum += kKind == SoftmaxKind::kLog ? dy : dy * In<T>(args, 1)[line(a)];
    }
    for (size_t a = 0; a < row->size(); ++a) {
      const double dy = In<T>(args, 0)[line(a)];
      const double y = In<T>(args, 1)[line(a)];
      Out<T>(args)[line(a)] =
          static_cast<T>(kKind == SoftmaxKind::kLog ? dy - std::exp(y) * sum : y * (dy - sum));
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Norm() {
  static constexpr KernelRow kRows[] = {
      {"BatchNorm", BatchNorm},
      {"BatchNormGrad", BatchNormGrad<false>},
      {"BatchNormInference", BatchNormInference},
      {"BatchNormInferenceGrad", BatchNormGrad<true>},
      {"LayerNorm", LayerNorm},
      {"LayerNormGrad", LayerNormGrad},
      {"RmsNorm", RmsNorm},
      {"RmsNormGrad", RmsNormGrad},
      {"Lrn", Lrn},
      {"LrnGrad", LrnGrad},
      {"Softmax", Softmax<SoftmaxKind::kProbability>},
      {"SoftmaxGrad", SoftmaxGrad<SoftmaxKind::kProbability>},
      {"LogSoftmax", Softmax<SoftmaxKind::kLog>},
      {"LogSoftmaxGrad", SoftmaxGrad<SoftmaxKind::kLog>},
  };
  return kRows;
}

}  // namespace ebb::device::ref
