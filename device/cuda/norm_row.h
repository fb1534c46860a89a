// What normalisations share: the moments of a row, and sums of two kinds at once.
#pragma once

#include <cmath>
#include <cstdint>

#include "device/math/sums.h"

namespace ebb::device::cuda {

// Of Rows and Lines: mean and inverse deviation of every row. Each() is the normalisation's own.
struct RowMoments {
  using Sum = math::Moments;
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return Sum::None(); }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const { sum.Add(x[row * size + i]); }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE float Inverse(const Sum& sum) const {
    return 1.0f / std::sqrt(sum.Variance() + epsilon);
  }
  EBB_INLINE void Done(int64_t row, const Sum& sum) const {
    mean[row] = sum.Mean();
    inverse[row] = Inverse(sum);
  }
  EBB_INLINE float Normal(int64_t row, int64_t i, const Sum& sum) const {
    return sum.Centered(x[row * size + i]) * Inverse(sum);
  }
  int64_t size;
  float epsilon;
  const float* x;
  float* mean;
  float* inverse;
};

// The sum of gradients, and that of their products with the normalised values.
struct SumAndDot {
  struct Sum {
    math::FloatSum sum, dot;
  };
  EBB_INLINE Sum Zero() const { return {{0, 0}, {0, 0}}; }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const {
    sum.sum.Join(other.sum);
    sum.dot.Join(other.dot);
  }
};

}  // namespace ebb::device::cuda
