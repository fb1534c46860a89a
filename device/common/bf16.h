// bfloat16: the upper half of a float. Rounding is to nearest, ties to even, as GPUs do; a NaN
// stays one.
#pragma once

#include <bit>
#include <cstdint>

#include "device/math/scalar.h"

namespace ebb::device {

EBB_INLINE float FromBf16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}
EBB_INLINE uint16_t ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(value != value ? (bits >> 16) | 0x40u : rounded);
}

}  // namespace ebb::device
