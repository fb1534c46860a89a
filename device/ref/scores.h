// What losses and metrics share: class scores with their labels, and per-element losses.
#pragma once

#include <algorithm>
#include <cmath>

#include "device/ref/common.h"

namespace ebb::device::ref {

// Scores [N,C,S] with labels [N,S]: item j is a label, its scores are at at(j, class).
struct Scores {
  AxisSplit split;  // images, classes, positions
  DType label_type;
  int64_t ignore_index;

  static Scores Of(const Node& node, const Shape& scores, DType label_type) {
    return {SplitAt(scores, 1), label_type, node.attrs.Int("ignore_index", -100)};
  }
  int64_t items() const { return split.outer * split.inner; }
  int64_t classes() const { return split.size; }
  int64_t at(int64_t item, int64_t c) const {
    return split.at(item / split.inner, c, item % split.inner);
  }
  // The class of an item; -1 when it does not count.
  int64_t Label(const void* labels, int64_t item) const {
    const int64_t label = label_type == DType::kI32 ? static_cast<const int32_t*>(labels)[item]
                                                    : static_cast<const int64_t*>(labels)[item];
    return label == ignore_index || label < 0 || label >= classes() ? -1 : label;
  }
  // log of the sum of e^score over the classes of an item.
  template <class T>
  double LogSumExp(const T* scores, int64_t item) const {
    double max = scores[at(item, 0)];
    for (int64_t c = 0; c < classes(); ++c) {
      max = std::max(max, static_cast<double>(scores[at(item, c)]));
    }
    double sum = 0;
    for (int64_t c = 0; c < classes(); ++c) sum += std::exp(scores[at(item, c)] - max);
    return max + std::log(sum);
  }
};

// A loss of one element, and its derivative.
struct Mse {
  static double Loss(double pred, double target) { return (pred - target) * (pred - target); }
  static double Slope(double pred, double target) { return 2 * (pred - target); }
};
struct Bce {
  static double Loss(double logit, double target) {
    return std::max(logit, 0.0) - logit * target + std::log1p(std::exp(-std::abs(logit)));
  }
  static double Slope(double logit, double target) { return 1 / (1 + std::exp(-logit)) - target; }
};

}  // namespace ebb::device::ref
