// Order statistics. Pure.
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace ebb::perfmodel {

// The middle value, or the mean of the middle two; 0 of none.
double MedianOf(std::vector<double> values);

// Linear between neighbours; `sorted` is not empty, `share` within [0, 1].
double QuantileOf(absl::Span<const double> sorted, double share);

}  // namespace ebb::perfmodel
