// What kept elements are multiplied with, and which are kept.
#pragma once

#include "base/philox.h"
#include "device/math/scalar.h"

namespace ebb::device::math {

inline float KeptScale(double ratio) {
  return ratio < 1 ? static_cast<float>(1.0 / (1.0 - ratio)) : 0.0f;
}

EBB_INLINE bool IsKept(uint32_t word, float ratio) { return UniformFloat(word) >= ratio; }

}  // namespace ebb::device::math
