// Where element i of a dense array is in strided views of the same dimensions: what kernels that
// broadcast, slice or transpose compute first. Plain data, built when a kernel is made.
#pragma once

#include <cstdint>

#include "device/common/broadcast.h"
#include "device/math/divisor.h"

namespace ebb::device::cuda {

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
      const Divided split = Divide(i, dim[d]);
      for (int k = 0; k < K; ++k) offsets.at[k] += split.rest * stride[k][d];
      i = split.quotient;
    }
    return offsets;
  }

  void Append(int64_t size, const int64_t (&strides)[K]) {
    dim[rank] = size;
    for (int k = 0; k < K; ++k) stride[k][rank] = strides[k];
    ++rank;
  }

  int rank = 0;
  Divisor dim[kMaxRank];
  int64_t stride[K][kMaxRank] = {};
};

}  // namespace ebb::device::cuda
