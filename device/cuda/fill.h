// Whole buffers: filled with one value, or copied.
#pragma once

#include "device/cuda/launch.h"

namespace ebb::device::cuda {

struct SameBits {
  template <class T>
  EBB_INLINE T operator()(T x) const {
    return x;
  }
};

template <class T>
struct Constant {
  EBB_INLINE Computed<T> operator()() const { return Read(value); }
  T value;
};

template <class T>
absl::Status Fill(const Launch& at, T* y, int64_t n, T value) {
  return Map(at, n, Constant<T>{value}, y);
}

// Nothing where they are the same bytes.
inline absl::Status Copy(const Launch& at, void* to, const void* from, int64_t bytes) {
  if (to == from) return absl::OkStatus();
  if (bytes % 4 == 0) {
    return Map(at, bytes / 4, SameBits(), static_cast<uint32_t*>(to),
               static_cast<const uint32_t*>(from));
  }
  return Map(at, bytes, SameBits(), static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from));
}

}  // namespace ebb::device::cuda
