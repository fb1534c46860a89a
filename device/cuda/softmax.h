// Softmax of rows in one pass over them and a second that writes, shared with the losses and
// metrics that are made of it.
#pragma once

#include "device/common/axis_rows.h"
#include "device/cuda/lines.h"
#include "device/math/scalar.h"

namespace ebb::device::cuda {

// The largest of some numbers, and the sum of e^(x - largest).
struct ExpSum {
  float max, sum;

  static EBB_INLINE ExpSum None() { return {-INFINITY, 0}; }
  EBB_INLINE void Add(float x) {
    if (x > max) {
      sum = sum * Exp(max - x) + (1.0f + (x - x));  // infinity makes NaN
      max = x;
    } else if (x != -INFINITY) {
      sum += Exp(x - max);
    }
  }
  EBB_INLINE void Join(const ExpSum& other) {
    const float top = other.max > max ? other.max : max;
    const float mine = max == top ? sum : sum * Exp(max - top);
    sum = mine + (other.max == top ? other.sum : other.sum * Exp(other.max - top));
    max = top;
  }
};

enum class SoftmaxOutput { kProbability, kLog };
// What a row is of which every element is -infinity: not a number, or zeros.
enum class Masked { kNan, kZero };

// For Lines().
template <SoftmaxOutput kOutput>
struct SoftmaxOf {
  using Sum = ExpSum;
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return Sum::None(); }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const { sum.Add(x[form.At(row, i)]); }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { sum.Join(other); }
  EBB_INLINE void Done(int64_t, const Sum&) const {}
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum& sum) const {
    const int64_t at = form.At(row, i);
    const float d = x[at] - sum.max;
    if constexpr (kOutput == SoftmaxOutput::kLog) {
      y[at] = d - std::log(sum.sum);
    } else {
      const bool zero = masked == Masked::kZero && sum.max == -INFINITY;
      y[at] = zero ? 0.0f : Exp(d) * (1.0f / sum.sum);
    }
  }
  AxisForm form;
  Masked masked;
  const float* x;
  float* y;
};

inline SumsBy RowsOf(const AxisForm& form) {
  return form.inner == 1 ? SumsBy::kRows : SumsBy::kColumns;
}

}  // namespace ebb::device::cuda
