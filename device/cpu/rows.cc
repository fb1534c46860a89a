#include "device/cpu/rows.h"

#include <cmath>

#include "device/cpu/vec.h"

namespace ebb::device::cpu {

namespace {

EBB_CLONES Moments Compute(const float* x, int64_t n, double epsilon) {
  const double count = static_cast<double>(n);
  const double exact = BlockedSum(n, [x](int64_t i) { return x[i]; }) / count;
  const float mean = static_cast<float>(exact);
  const double square = BlockedSum(n, [x, mean](int64_t i) {
    const float d = x[i] - mean;
    return d * d;
  });
  // The rounding of `mean` is undone by the second term.
  const double off = exact - static_cast<double>(mean);
  const double variance = std::max(square / count - off * off, 0.0);
  return {mean, static_cast<float>(1.0 / std::sqrt(variance + epsilon))};
}

}  // namespace

Moments MomentsOf(const float* x, int64_t n, double epsilon) { return Compute(x, n, epsilon); }

}  // namespace ebb::device::cpu
