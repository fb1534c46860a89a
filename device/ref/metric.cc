// Metrics: a sum and a count over the first `valid` rows of a batch.
#include "device/ref/kernels.h"
#include "device/ref/scores.h"

namespace ebb::device::ref {
namespace {

// Input `i`, within [0, rows]; all rows when it is absent.
int64_t ValidRows(const KernelArgs& args, int64_t rows, size_t i = 2) {
  const auto* valid = In<int64_t>(args, i);
  return valid == nullptr ? rows : std::clamp<int64_t>(*valid, 0, rows);
}

void Store(const KernelArgs& args, double sum, double count) {
  *Out<float>(args, 0) = static_cast<float>(sum);
  *Out<float>(args, 1) = static_cast<float>(count);
}

// Sums f(scores, item, label) over the items that count.
template <class F>
absl::StatusOr<Kernel> OverLabels(const Graph& graph, const Node& node, F f) {
  const Scores scores =
      Scores::Of(node, InType(graph, node, 0).shape, InType(graph, node, 1).dtype);
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    double sum = 0, count = 0;
    const int64_t items = ValidRows(args, scores.split.outer) * scores.split.inner;
    for (int64_t j = 0; j < items; ++j) {
      const int64_t label = scores.Label(args.in[1], j);
      if (label < 0) continue;
      sum += f(scores, In<T>(args, 0), j, label);
      ++count;
    }
    Store(args, sum, count);
  });
}

// (logits, labels, [valid], [weight])
absl::StatusOr<Kernel> CrossEntropySum(const Graph& graph, const Node& node) {
  const double smoothing = node.attrs.Float("label_smoothing", 0);
  const bool log_prob = node.attrs.Int("log_prob", 0) != 0;
  const Scores scores =
      Scores::Of(node, InType(graph, node, 0).shape, InType(graph, node, 1).dtype);
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* logits = In<T>(args, 0);
    const auto weight = [&](int64_t c) -> double {
      return In<T>(args, 3) == nullptr ? 1 : In<T>(args, 3)[c];
    };
    double sum = 0, count = 0;
    const int64_t items = ValidRows(args, scores.split.outer) * scores.split.inner;
    for (int64_t j = 0; j < items; ++j) {
      const int64_t label = scores.Label(args.in[1], j);
      if (label < 0) continue;
      const double log_sum = log_prob ? 0 : scores.LogSumExp(logits, j);
      sum += (1 - smoothing) * weight(label) * (log_sum - logits[scores.at(j, label)]);
      for (int64_t c = 0; c < scores.classes() && smoothing != 0; ++c) {
        sum += smoothing / static_cast<double>(scores.classes()) * weight(c) *
               (log_sum - logits[scores.at(j, c)]);
      }
      count += weight(label);
    }
    Store(args, sum, count);
  });
}

// (logits, labels, [valid]): rows of true positives, false positives, false negatives
absl::StatusOr<Kernel> ClassCounts(const Graph& graph, const Node& node) {
  const Scores scores =
      Scores::Of(node, InType(graph, node, 0).shape, InType(graph, node, 1).dtype);
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* logits = In<T>(args, 0);
    float* counts = Out<float>(args);
    std::fill_n(counts, 3 * scores.classes(), 0.0F);
    const int64_t items = ValidRows(args, scores.split.outer) * scores.split.inner;
    for (int64_t j = 0; j < items; ++j) {
      const int64_t label = scores.Label(args.in[1], j);
      if (label < 0) continue;
      int64_t best = 0;
      for (int64_t c = 1; c < scores.classes(); ++c) {
        if (logits[scores.at(j, c)] > logits[scores.at(j, best)]) best = c;
      }
      if (best == label) {
        ++counts[label];
      } else {
        ++counts[scores.classes() + best];
        ++counts[2 * scores.classes() + label];
      }
    }
  });
}

// (x, [valid])
absl::StatusOr<Kernel> RowsSum(const Graph& graph, const Node& node) {
  const Shape& shape = InType(graph, node, 0).shape;
  const int64_t rows = shape.empty() ? 1 : shape[0];
  const int64_t width = rows == 0 ? 0 : NumElements(shape) / rows;
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const int64_t count = ValidRows(args, rows, 1) * width;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += In<T>(args, 0)[i];
    Store(args, sum, static_cast<double>(count));
  });
}

absl::StatusOr<Kernel> TopKCorrect(const Graph& graph, const Node& node) {
  const int64_t k = node.attrs.Int("k", 1);
  return OverLabels(graph, node,
                    [=](const Scores& scores, auto* logits, int64_t item, int64_t label) {
                      const auto own = logits[scores.at(item, label)];
                      if (std::isnan(own)) return 0.0;  // no comparison would put another ahead
                      int64_t ahead = 0;
                      for (int64_t c = 0; c < scores.classes(); ++c) {
                        const auto other = logits[scores.at(item, c)];
                        if (other > own || (other == own && c < label)) ++ahead;
                      }
                      return ahead < k ? 1.0 : 0.0;
                    });
}

// Sums f(pred, target) over the elements of the rows that count.
template <class F>
absl::StatusOr<Kernel> OverElements(const Graph& graph, const Node& node, F f) {
  const AxisSplit split = SplitAt(InType(graph, node, 0).shape, 0);
  return ForFloat(InType(graph, node, 0).dtype, [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const int64_t count = ValidRows(args, split.size) * split.inner;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += f(In<T>(args, 0)[i], In<T>(args, 1)[i]);
    Store(args, sum, static_cast<double>(count));
  });
}

absl::StatusOr<Kernel> MseSum(const Graph& g, const Node& n) {
  return OverElements(g, n, Mse::Loss);
}
absl::StatusOr<Kernel> BceSum(const Graph& g, const Node& n) {
  return OverElements(g, n, Bce::Loss);
}
absl::StatusOr<Kernel> BinaryCorrect(const Graph& g, const Node& n) {
  return OverElements(g, n, [](double logit, double target) {
    return (logit >= 0) == (target >= 0.5) && !std::isnan(logit) ? 1.0 : 0.0;
  });
}

}  // namespace

absl::Span<const KernelRow> Metric() {
  static constexpr KernelRow kRows[] = {{"CrossEntropySum", CrossEntropySum},
                                        {"TopKCorrect", TopKCorrect},
                                        {"MseSum", MseSum},
                                        {"BceSum", BceSum},
                                        {"BinaryCorrect", BinaryCorrect},
                                        {"ClassCounts", ClassCounts},
                                        {"RowsSum", RowsSum}};
  return kRows;
}

}  // namespace ebb::device::ref
