// Losses and their gradients. Like PyTorch, a mean over nothing is NaN.
#include "device/ref/kernels.h"
#include "device/ref/scores.h"

namespace ebb::device::ref {
namespace {

enum class Reduction { kMean, kSum, kNone };

Reduction ReductionOf(const Node& node) {
  const std::string name = node.attrs.Str("reduction", "mean");
  return name == "none" ? Reduction::kNone : name == "sum" ? Reduction::kSum : Reduction::kMean;
}

// ---- Losses over classes. An item with label y costs
//   -(1 - s) w_y log p_y - s / C * sum over c of w_c log p_c
// where s is the label smoothing; the mean divides by the sum of w_y.

struct ClassLoss {
  Scores scores;
  double smoothing;
  Reduction reduction;

  static ClassLoss Of(const Node& node, const Shape& shape, DType label_type) {
    return {Scores::Of(node, shape, label_type), node.attrs.Float("label_smoothing", 0),
            ReductionOf(node)};
  }
  template <class T>
  static double Weight(const T* weight, int64_t c) {
    return weight == nullptr ? 1 : static_cast<double>(weight[c]);
  }
  // How much log p_c counts for an item with this label.
  template <class T>
  double Share(const T* weight, int64_t label, int64_t c) const {
    double share = smoothing / static_cast<double>(scores.classes());
    if (c == label) share += 1 - smoothing;
    return share * Weight(weight, c);
  }
  template <class T>
  double Divisor(const void* labels, const T* weight) const {
    if (reduction != Reduction::kMean) return 1;
    double sum = 0;
    for (int64_t j = 0; j < scores.items(); ++j) {
      if (const int64_t y = scores.Label(labels, j); y >= 0) sum += Weight(weight, y);
    }
    return sum;
  }
  template <class T>
  void Forward(const T* log_prob, const void* labels, const T* weight, T* loss) const {
    double sum = 0;
    for (int64_t j = 0; j < scores.items(); ++j) {
      double item = 0;
      if (const int64_t y = scores.Label(labels, j); y >= 0) {
        for (int64_t c = 0; c < scores.classes(); ++c) {
          if (const double share = Share(weight, y, c); share != 0) {
            item -= share * log_prob[scores.at(j, c)];
          }
        }
      }
      if (reduction == Reduction::kNone) loss[j] = static_cast<T>(item);
      sum += item;
    }
    if (reduction != Reduction::kNone) *loss = static_cast<T>(sum / Divisor(labels, weight));
  }
};

absl::StatusOr<Kernel> CrossEntropy(const Graph& graph, const Node& node) {
  const ClassLoss loss =
      ClassLoss::Of(node, InType(graph, node, 0).shape, InType(graph, node, 1).dtype);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const Scores& scores = loss.scores;
    const T* logits = In<T>(args, 0);
    T* log_prob = Out<T>(args, 1);
    for (int64_t j = 0; j < scores.items(); ++j) {
      const double log_sum = scores.LogSumExp(logits, j);
      for (int64_t c = 0; c < scores.classes(); ++c) {
        log_prob[scores.at(j, c)] = static_cast<T>(logits[scores.at(j, c)] - log_sum);
      }
    }
    loss.Forward(log_prob, args.in[1], In<T>(args, 2), Out<T>(args));
  });
}

// (dloss, log_prob, labels, [weight]); may overwrite log_prob
absl::StatusOr<Kernel> CrossEntropyGrad(const Graph& graph, const Node& node) {
  const ClassLoss loss =
      ClassLoss::Of(node, InType(graph, node, 1).shape, InType(graph, node, 2).dtype);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const Scores& scores = loss.scores;
    const T* weight = In<T>(args, 3);
    const double divisor = loss.Divisor(args.in[2], weight);
    for (int64_t j = 0; j < scores.items(); ++j) {
      const int64_t y = scores.Label(args.in[2], j);
      const double dloss = In<T>(args, 0)[loss.reduction == Reduction::kNone ? j : 0];
      double shares = 0;
      for (int64_t c = 0; c < scores.classes(); ++c) shares += loss.Share(weight, y, c);
      for (int64_t c = 0; c < scores.classes(); ++c) {
        const int64_t at = scores.at(j, c);
        const double slope = shares * std::exp(In<T>(args, 1)[at]) - loss.Share(weight, y, c);
        Out<T>(args)[at] = static_cast<T>(y < 0 ? 0 : dloss / divisor * slope);
      }
    }
  });
}

absl::StatusOr<Kernel> NllLoss(const Graph& graph, const Node& node) {
  const ClassLoss loss =
      ClassLoss::Of(node, InType(graph, node, 0).shape, InType(graph, node, 1).dtype);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    loss.Forward(In<T>(args, 0), args.in[1], In<T>(args, 2), Out<T>(args));
  });
}

// (dloss, labels, [weight])
absl::StatusOr<Kernel> NllLossGrad(const Graph& graph, const Node& node) {
  const ClassLoss loss =
      ClassLoss::Of(node, OutType(graph, node).shape, InType(graph, node, 1).dtype);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* weight = In<T>(args, 2);
    const double divisor = loss.Divisor(args.in[1], weight);
    for (int64_t j = 0; j < loss.scores.items(); ++j) {
      const int64_t y = loss.scores.Label(args.in[1], j);
      const double dloss = In<T>(args, 0)[loss.reduction == Reduction::kNone ? j : 0];
      for (int64_t c = 0; c < loss.scores.classes(); ++c) {
        Out<T>(args)[loss.scores.at(j, c)] =
            static_cast<T>(c == y ? -dloss / divisor * ClassLoss::Weight(weight, c) : 0);
      }
    }
  });
}

// ---- Losses over elements.

template <class L>
absl::StatusOr<Kernel> ElementLoss(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(InType(graph, node, 0).shape);
  const Reduction reduction = ReductionOf(node);
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double loss = L::Loss(In<T>(args, 0)[i], In<T>(args, 1)[i]);
      if (reduction == Reduction::kNone) Out<T>(args)[i] = static_cast<T>(loss);
      sum += loss;
    }
    if (reduction == Reduction::kMean) sum /= static_cast<double>(n);
    if (reduction != Reduction::kNone) *Out<T>(args) = static_cast<T>(sum);
  });
}

// (dloss, pred, target)
template <class L>
absl::StatusOr<Kernel> ElementLossGrad(const Graph& graph, const Node& node) {
  const int64_t n = NumElements(OutType(graph, node).shape);
  const Reduction reduction = ReductionOf(node);
  const double divisor = reduction == Reduction::kMean ? static_cast<double>(n) : 1;
  return ForFloat(OutType(graph, node).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    for (int64_t i = 0; i < n; ++i) {
      const double dloss = In<T>(args, 0)[reduction == Reduction::kNone ? i : 0];
      Out<T>(args)[i] =
          static_cast<T>(dloss / divisor * L::Slope(In<T>(args, 1)[i], In<T>(args, 2)[i]));
    }
  });
}

}  // namespace

absl::Span<const KernelRow> Loss() {
  static constexpr KernelRow kRows[] = {
      {"CrossEntropy", CrossEntropy},
      {"CrossEntropyGrad", CrossEntropyGrad},
      {"NllLoss", NllLoss},
      {"NllLossGrad", NllLossGrad},
      {"MseLoss", ElementLoss<Mse>},
      {"MseLossGrad", ElementLossGrad<Mse>},
      {"BceWithLogits", ElementLoss<Bce>},
      {"BceWithLogitsGrad", ElementLossGrad<Bce>},
  };
  return kRows;
}

}  // namespace ebb::device::ref
