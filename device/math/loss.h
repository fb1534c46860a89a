// Losses of one element, and their derivatives by the prediction.
#pragma once

#include "device/math/scalar.h"

namespace ebb::device::math {

struct Mse {
  static EBB_INLINE float Loss(float x, float t) { return (x - t) * (x - t); }
  static EBB_INLINE float Slope(float x, float t) { return 2.0f * (x - t); }
};
struct Bce {  // of a logit
  static EBB_INLINE float Loss(float x, float t) {
    return (x > 0.0f ? x : 0.0f) - x * t + std::log1p(std::exp(-std::fabs(x)));
  }
  static EBB_INLINE float Slope(float x, float t) { return Sigmoid(x) - t; }
};

}  // namespace ebb::device::math
