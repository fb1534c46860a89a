// Optimizer updates that divide by a history of squares: torch.optim.Adagrad and RMSprop, and the
// row-wise Adagrad of FBGEMM (EXACT_ROWWISE_ADAGRAD), which keeps one sum for each row of a table.
#include "device/ref/adaptive.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "device/ref/average.h"
#include "device/ref/common.h"

namespace ebb::device::ref {
namespace {

// (param, grad, hyper, sum, [ema])
absl::StatusOr<Kernel> AdagradUpdate(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double weight_decay = node.attrs.Float("weight_decay", 0);
  const double lr_decay = node.attrs.Float("lr_decay", 0);
  const double epsilon = node.attrs.Float("epsilon", 1e-10);
  const double ema_decay = node.attrs.Float("ema_decay", 0);
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const double* hyper = In<double>(args, 2);
    const double rate = hyper[0] * lr_scale / (1 + (hyper[1] - 1) * lr_decay);
    T* param = InOut<T>(args, 0);
    T* sum = InOut<T>(args, 3);
    for (int64_t i = 0; i < n; ++i) {
      const double grad = In<T>(args, 1)[i] + weight_decay * param[i];
      const double now = sum[i] + grad * grad;
      sum[i] = static_cast<T>(now);
      param[i] = static_cast<T>(param[i] - rate * grad / (std::sqrt(now) + epsilon));
    }
    Average(InOut<T>(args, 4), param, n, ema_decay, hyper);
  });
}

// (param, grad, hyper, square, [velocity], [mean], [ema])
absl::StatusOr<Kernel> RmsPropUpdate(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  const double lr_scale = node.attrs.Float("lr_scale", 1);
  const double weight_decay = node.attrs.Float("weight_decay", 0);
  const double alpha = node.attrs.Float("alpha", 0.99);
  const double epsilon = node.attrs.Float("epsilon", 1e-8);
  const double momentum = node.attrs.Float("momentum", 0);
  const double ema_decay = node.attrs.Float("ema_decay", 0);
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const double rate = In<double>(args, 2)[0] * lr_scale;
    T* param = InOut<T>(args, 0);
    T* square = InOut<T>(args, 3);
    T* velocity = InOut<T>(args, 4);
    T* mean = InOut<T>(args, 5);
    for (int64_t i = 0; i < n; ++i) {
      const double grad = In<T>(args, 1)[i] + weight_decay * param[i];
      double history = alpha * square[i] + (1 - alpha) * grad * grad;
      square[i] = static_cast<T>(history);
      if (mean != nullptr) {
        const double m = alpha * mean[i] + (1 - alpha) * grad;
        mean[i] = static_cast<T>(m);
        history -= m * m;
      }
      double step = grad / (std::sqrt(history) + epsilon);
      if (velocity != nullptr) {
        step += momentum * velocity[i];
        velocity[i] = static_cast<T>(step);
      }
      param[i] = static_cast<T>(param[i] - rate * step);
    }
    Average(InOut<T>(args, 6), param, n, ema_decay, In<double>(args, 2));
  });
}

struct Rowwise {
  Rowwise(const Graph& graph, const Node& node)
      : rows(InType(graph, node, 0).shape[0]),
        width(NumElements(InType(graph, node, 0).shape) / std::max<int64_t>(rows, 1)),
        lr_scale(node.attrs.Float("lr_scale", 1)),
        weight_decay(node.attrs.Float("weight_decay", 0)),
        epsilon(node.attrs.Float("epsilon", 1e-8)) {}

  // One row, of which `grad` is the gradient.
  template <class T, class G>
  void Update(T* param, const G* grad, T* sum, double rate) const {
    double squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double g = grad[i] + weight_decay * param[i];
      squares += g * g;
    }
    const double now = *sum + squares / static_cast<double>(width);
    *sum = static_cast<T>(now);
    for (int64_t i = 0; i < width; ++i) {
      const double g = grad[i] + weight_decay * param[i];
      param[i] = static_cast<T>(param[i] - rate * lr_scale / (std::sqrt(now) + epsilon) * g);
    }
  }

  int64_t rows, width;
  double lr_scale, weight_decay, epsilon;
};

// (param, grad, hyper, sum, [ema])
absl::StatusOr<Kernel> RowwiseAdagradUpdate(const Graph& graph, const Node& node) {
  const Rowwise rule(graph, node);
  const bool sparse = node.attrs.Int("sparse", 0) != 0;
  const double ema_decay = node.attrs.Float("ema_decay", 0);
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    T* param = InOut<T>(args, 0);
    for (int64_t r = 0; r < rule.rows && rule.width > 0; ++r) {
      const T* grad = In<T>(args, 1) + r * rule.width;
      const bool touched = std::any_of(grad, grad + rule.width, [](T g) { return g != 0; });
      if (sparse && !touched) continue;
      rule.Update(param + r * rule.width, grad, InOut<T>(args, 3) + r, In<double>(args, 2)[0]);
    }
    Average(InOut<T>(args, 4), param, rule.rows * rule.width, ema_decay, In<double>(args, 2));
  });
}

// Which row of dy each look-up's gradient is, and what it is scaled by: itself, or its bag. An
// index is in one bag at most.
struct Uses {
  std::vector<int64_t> from;  // -1: none
  std::vector<double> scale;
};

template <class I>
Uses UsesOf(const I* offsets, int64_t count, int64_t bags, bool last_offset, bool mean) {
  Uses uses{std::vector<int64_t>(static_cast<size_t>(count), -1),
            std::vector<double>(static_cast<size_t>(count), 1)};
  const auto clamp = [&](I at) { return std::clamp<int64_t>(at, 0, count); };
  for (int64_t b = 0; b < bags; ++b) {
    const int64_t begin = clamp(offsets[b]);
    const bool open = b + 1 == bags && !last_offset;
    const int64_t end = std::max(begin, open ? count : clamp(offsets[b + 1]));
    for (int64_t k = begin; k < end; ++k) {
      if (uses.from[static_cast<size_t>(k)] >= 0) continue;
      uses.from[static_cast<size_t>(k)] = b;
      if (mean) uses.scale[static_cast<size_t>(k)] = 1.0 / static_cast<double>(end - begin);
    }
  }
  return uses;
}

// (param, dy, hyper, sum, indices, [offsets])
absl::StatusOr<Kernel> SparseRowwiseAdagradUpdate(const Graph& graph, const Node& node) {
  const Rowwise rule(graph, node);
  const int64_t count = NumElements(InType(graph, node, 4).shape);
  const bool wide = InType(graph, node, 4).dtype == DType::kI64;
  const int64_t bags = HasInput(node, 5) ? InType(graph, node, 1).shape[0] : -1;
  const bool last_offset = node.attrs.Int("include_last_offset", 0) != 0;
  const bool mean = node.attrs.Str("mode", "sum") == "mean";
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    Uses uses;
    if (bags >= 0) {
      uses = wide ? UsesOf(In<int64_t>(args, 5), count, bags, last_offset, mean)
                  : UsesOf(In<int32_t>(args, 5), count, bags, last_offset, mean);
    }
    std::map<int64_t, std::vector<double>> gradients;  // by row
    for (int64_t k = 0; k < count && rule.width > 0; ++k) {
      const int64_t from = bags < 0 ? k : uses.from[static_cast<size_t>(k)];
      int64_t row = wide ? In<int64_t>(args, 4)[k] : In<int32_t>(args, 4)[k];
      if (row < 0) row += rule.rows;
      if (from < 0 || row < 0 || row >= rule.rows) continue;
      const double scale = bags < 0 ? 1 : uses.scale[static_cast<size_t>(k)];
      std::vector<double>& sum = gradients[row];
      sum.resize(static_cast<size_t>(rule.width));
      for (int64_t i = 0; i < rule.width; ++i) {
        sum[static_cast<size_t>(i)] += scale * In<T>(args, 1)[from * rule.width + i];
      }
    }
    for (const auto& [row, grad] : gradients) {
      rule.Update(InOut<T>(args, 0) + row * rule.width, grad.data(), InOut<T>(args, 3) + row,
                  In<double>(args, 2)[0]);
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Adaptive() {
  static constexpr KernelRow kRows[] = {{"AdagradUpdate", AdagradUpdate},
                                        {"RmsPropUpdate", RmsPropUpdate},
                                        {"RowwiseAdagradUpdate", RowwiseAdagradUpdate},
                                        {"SparseRowwiseAdagradUpdate", SparseRowwiseAdagradUpdate}};
  return kRows;
}

}  // namespace ebb::device::ref
