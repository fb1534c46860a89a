// The 16-bit floats that activations are stored in: bfloat16, the upper half of a float, and IEEE
// half precision. Rounding is to nearest, ties to even, as GPUs do: what is too large becomes
// infinity, a NaN stays one. Arithmetic is in float.
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

// Written as selections, not branches, so that loops over it vectorise.
EBB_INLINE float FromF16(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  const uint32_t rebias = (127u - 15u) << 23;
  const uint32_t normal = magnitude + rebias;
  // A subnormal is a whole number of 2^-24: as the lowest bits of a float in [2^-14, 2^-13).
  const uint32_t least = rebias + (1u << 23);
  const float subnormal = std::bit_cast<float>(magnitude + least) - std::bit_cast<float>(least);
  uint32_t found = magnitude < (1u << 23) ? std::bit_cast<uint32_t>(subnormal) : normal;
  found = magnitude >= (31u << 23) ? magnitude + (224u << 23) : found;  // infinity, NaN
  return std::bit_cast<float>(found | static_cast<uint32_t>(bits & 0x8000u) << 16);
}
EBB_INLINE uint16_t ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Adding one half leaves the multiples of 2^-24 in the lowest bits, and rounds them.
  const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t rebias = (127u - 15u) << 23;
  const uint32_t normal = (magnitude - rebias + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t found = magnitude < ((127u - 14u) << 23) ? subnormal : normal;
  found = magnitude >= ((127u + 16u) << 23) ? 0x7c00u : found;
  found = magnitude > (255u << 23) ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : found;
  return static_cast<uint16_t>(found | ((bits >> 16) & 0x8000u));
}

// The same as types, for code that is written once for every type of storage.
struct Bf16 {
  uint16_t bits;
};
struct F16 {
  uint16_t bits;
};

EBB_INLINE float Widen(float value) { return value; }
EBB_INLINE float Widen(Bf16 value) { return FromBf16(value.bits); }
EBB_INLINE float Widen(F16 value) { return FromF16(value.bits); }

EBB_INLINE void Narrow(float value, float* to) { *to = value; }
EBB_INLINE void Narrow(float value, Bf16* to) { to->bits = ToBf16(value); }
EBB_INLINE void Narrow(float value, F16* to) { to->bits = ToF16(value); }

}  // namespace ebb::device
