// Where element i of a dense array is in strided views of the same dimensions: what kernels that
// broadcast, slice or transpose compute first. Plain data, built when a kernel is made.
#pragma once

#include <cstdint>

#include "device/common/broadcast.h"
#include "device/math/scalar.h"

namespace ebb::device::cuda {

// Quotients by a number known beforehand, by a multiplication (Granlund and Montgomery, "Division
// by invariant integers using multiplication", PLDI'94): of 32 bits for numerators below 2^31, of
// 64 above. For 1 <= divisor < 2^62.
struct Divider {
  __extension__ using Wide = unsigned __int128;

  Divider() = default;
  explicit Divider(int64_t by) : divisor(by) {
    while ((int64_t{1} << shift64) < by) ++shift64;
    const auto above = static_cast<Wide>((int64_t{1} << shift64) - by);
    magic64 = static_cast<uint64_t>((above << 64) / static_cast<Wide>(by) + 1);
    // A divisor beyond all small numerators gives 0 for them.
    shift32 = by > INT32_MAX ? 31 : shift64;
    magic32 = by > INT32_MAX ? 1 : static_cast<uint32_t>((above << 32) / static_cast<Wide>(by) + 1);
  }
  EBB_INLINE int64_t Quotient(int64_t n) const {
    if (n <= INT32_MAX) {
      const auto m = static_cast<uint32_t>(n);
      return (static_cast<uint32_t>((uint64_t{m} * magic32) >> 32) + m) >> shift32;
    }
    const auto m = static_cast<uint64_t>(n);
    return static_cast<int64_t>((static_cast<uint64_t>((Wide{m} * magic64) >> 64) + m) >> shift64);
  }
  // {quotient, remainder} of n >= 0.
  struct Split {
    int64_t quotient, rest;
  };
  EBB_INLINE Split operator()(int64_t n) const {
    const int64_t quotient = Quotient(n);
    return {quotient, n - quotient * divisor};
  }

  int64_t divisor = 1;
  uint64_t magic64 = 1;
  uint32_t magic32 = 1;
  uint32_t shift32 = 0;
  uint32_t shift64 = 0;
};

// K views. Dimensions are in the order in which they are counted: the fastest first.
template <int K>
struct Strides {
  struct Offsets {
    int64_t at[K];
  };
  EBB_INLINE Offsets Of(int64_t i) const {
    Offsets offsets;
    for (int k = 0; k < K; ++k) offsets.at[k] = 0;
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int d = 0; d < kMaxRank; ++d) {
      if (d == rank) break;
      const Divider::Split split = dim[d](i);
      for (int k = 0; k < K; ++k) offsets.at[k] += split.rest * stride[k][d];
      i = split.quotient;
    }
    return offsets;
  }

  void Append(int64_t size, const int64_t (&strides)[K]) {
    dim[rank] = Divider(size);
    for (int k = 0; k < K; ++k) stride[k][rank] = strides[k];
    ++rank;
  }

  int rank = 0;
  Divider dim[kMaxRank];
  int64_t stride[K][kMaxRank] = {};
};

}  // namespace ebb::device::cuda
