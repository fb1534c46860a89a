// A divisor that is known before it is used: division by it is a multiplication, where GPUs take a
// long subroutine for one of 64 bits.
#pragma once

#include <cstdint>

#include "device/math/scalar.h"

namespace ebb::device {

// Reads as the number that it is. `n / d` and `n % d` are for n >= 0.
class Divisor {
 public:
  constexpr Divisor() = default;
  // `d` >= 0; by 0 the quotient is n.
  constexpr Divisor(int64_t d)  // NOLINT(google-explicit-constructor): it is a number
      : d_(d), reciprocal_(d <= 1 ? 0 : ~uint64_t{0} / static_cast<uint64_t>(d) + 1) {}

  EBB_INLINE operator int64_t() const { return d_; }  // NOLINT(google-explicit-constructor)

  friend EBB_INLINE int64_t operator/(int64_t n, const Divisor& d) {
    if (d.reciprocal_ == 0) return n;
    // The reciprocal is rounded up, so the quotient is right or one too large.
    const auto q = static_cast<int64_t>(High(static_cast<uint64_t>(n), d.reciprocal_));
    return q * d.d_ > n ? q - 1 : q;
  }
  friend EBB_INLINE int64_t operator%(int64_t n, const Divisor& d) { return n - n / d * d.d_; }

 private:
  static EBB_INLINE uint64_t High(uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH__)
    return __umul64hi(a, b);
#else
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>(Wide{a} * b >> 64);
#endif
  }

  int64_t d_ = 1;
  uint64_t reciprocal_ = 0;  // 2^64 / d, rounded up; 0: none is needed
};

// Of n >= 0.
struct Divided {
  int64_t quotient, rest;
};
EBB_INLINE Divided Divide(int64_t n, const Divisor& d) {
  const int64_t quotient = n / d;
  return {quotient, n - quotient * d};
}

}  // namespace ebb::device
