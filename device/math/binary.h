// Functions of two operands, shared by the devices: arithmetic, comparisons and logic. Without
// state.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "device/math/scalar.h"

namespace ebb::device::math {

// Integers wrap around.
template <class T>
struct Arithmetic {
  using Type = T;
};
template <class T>
requires std::is_integral_v<T>
struct Arithmetic<T> {
  using Type = std::make_unsigned_t<T>;
};

struct Add {
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    using U = typename Arithmetic<T>::Type;
    return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
  }
};
struct Sub {
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    using U = typename Arithmetic<T>::Type;
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(b));
  }
};
struct Mul {
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    using U = typename Arithmetic<T>::Type;
    return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
  }
};
struct Div {
  EBB_INLINE float operator()(float a, float b) const { return a / b; }
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {  // never traps
    if (b == 0) return 0;
    return b == -1 ? Sub()(T(0), a) : a / b;
  }
};
struct Pow {
  EBB_INLINE float operator()(float a, float b) const { return std::pow(a, b); }
};
struct Max {
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    const T larger = a >= b ? a : b;  // b if either is NaN
    return a != a ? a : larger;
  }
};
struct Min {
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    const T smaller = a <= b ? a : b;
    return a != a ? a : smaller;
  }
};
// The remainder has the divisor's sign, or with fmod the dividend's; by 0 it is 0 of integers.
template <bool kFmod>
struct Mod {
  EBB_INLINE float operator()(float a, float b) const {
    const float rest = std::fmod(a, b);
    return !kFmod && rest != 0.0f && (rest < 0.0f) != (b < 0.0f) ? rest + b : rest;
  }
  template <class T>
  EBB_INLINE T operator()(T a, T b) const {
    if (b == 0 || b == -1) return 0;
    const T rest = a % b;
    return !kFmod && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
};
struct GreaterEqual {
  EBB_INLINE float operator()(float a, float b) const { return a >= b ? 1.0f : 0.0f; }
};

// A byte of 0 or 1.
struct Equal {
  template <class T>
  EBB_INLINE uint8_t operator()(T a, T b) const {
    return a == b;
  }
};
struct Less {
  template <class T>
  EBB_INLINE uint8_t operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  EBB_INLINE uint8_t operator()(T a, T b) const {
    return a <= b;
  }
};
struct And {
  EBB_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { return a != 0 && b != 0; }
};
struct Or {
  EBB_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { return a != 0 || b != 0; }
};
struct Xor {
  EBB_INLINE uint8_t operator()(uint8_t a, uint8_t b) const { return (a != 0) != (b != 0); }
};

}  // namespace ebb::device::math
