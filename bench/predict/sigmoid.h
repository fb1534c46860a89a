// The collective model of Lin et al. (Towards Universal Performance Modeling, TPDS 2024), to
// compare with: three regions, a sigmoid of bandwidth between. Immutable.
#pragma once

#include "absl/types/span.h"
#include "perfmodel/curve.h"

namespace ebb::bench {

class Sigmoid {
 public:
  // By the sizes of a sweep, two at least, rising; `factor` is perfmodel::BusFactor. The sigmoid's
  // steepness and middle are the best of a grid, its height and foot the least squares for them.
  Sigmoid(absl::Span<const perfmodel::CurvePoint> points, double factor);

  double At(double bytes) const;

 private:
  double BusBandwidth(double bytes) const;  // bytes a microsecond

  double factor_;
  double first_ = 0, last_ = 0;  // sizes between which the sigmoid holds
  double floor_us_ = 0;          // at sizes up to `first_`
  double peak_ = 0;              // bytes a microsecond
  double height_ = 0, steepness_ = 0, middle_ = 0, foot_ = 0;
};

}  // namespace ebb::bench
