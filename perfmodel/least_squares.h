// Least squares with coefficients that may not be negative: times are sums of what takes time.
// Pure.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace ebb::perfmodel {

// x >= 0 that minimises the sum over rows of weight^2 (a . x - y)^2, by the active-set method of
// Lawson and Hanson ("Solving least squares problems", 1974, chapter 23). All rows of `a` have the
// same length; terms that are (nearly) sums of others may get 0. Does not depend on the scale of
// the terms.
std::vector<double> NonNegativeLeastSquares(absl::Span<const std::vector<double>> a,
                                            absl::Span<const double> y,
                                            absl::Span<const double> weights);

// The same with every row weighted by 1 / y: errors are relative ones. All y > 0.
std::vector<double> FitRelative(absl::Span<const std::vector<double>> a,
                                absl::Span<const double> y);

double Dot(absl::Span<const double> a, absl::Span<const double> x);

}  // namespace ebb::perfmodel
