// Elements as they lie in memory and as kernels compute with them: floats of 16 bits are widened
// when they are read and rounded once when they are written; all others stay what they are.
#pragma once

#include <type_traits>

#include "device/common/half.h"

namespace ebb::device {

template <class T>
inline constexpr bool kIsLow = std::is_same_v<T, Bf16> || std::is_same_v<T, F16>;

// What kernels compute with where elements are stored as T.
template <class T>
using Computed = std::conditional_t<kIsLow<T>, float, T>;

template <class T>
EBB_INLINE Computed<T> Read(T stored) {
  if constexpr (kIsLow<T>) {
    return Widen(stored);
  } else {
    return stored;
  }
}

template <class T, class V>
EBB_INLINE T Stored(V value) {
  if constexpr (kIsLow<T>) {
    T low;
    Narrow(static_cast<float>(value), &low);
    return low;
  } else {
    return static_cast<T>(value);
  }
}

}  // namespace ebb::device
