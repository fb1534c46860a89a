// Sums of floats that stay exact to a float's precision over any number of elements without
// arithmetic in double, which many GPUs are slow at.
#pragma once

#include "device/math/scalar.h"

namespace ebb::device::math {

// A sum and what it still owes (Kahan's, by Knuth's two-sum). Infinities and NaN come out as those
// of a plain sum.
struct FloatSum {
  float sum, lost;

  EBB_INLINE void Add(float x) {
    const float y = x + lost;
    const float next = sum + y;
    const float part = next - sum;
    const float error = (sum - (next - part)) + (y - part);
    lost = error == error ? error : 0.0f;  // beyond infinity there is nothing to owe
    sum = next;
  }
  EBB_INLINE void Join(const FloatSum& other) {
    Add(other.sum);
    lost += other.lost;
  }
  EBB_INLINE float Total() const { return sum + lost; }
  EBB_INLINE double Wide() const { return static_cast<double>(sum) + static_cast<double>(lost); }
};

// Count, mean and sum of squared distances from it: Welford's update and Chan's join. The mean is
// kept as what it adds to the first element, so that a large mean does not hide a small deviation.
struct Moments {
  float count, first, mean_less_first, m2;

  static EBB_INLINE Moments None() { return {0, 0, 0, 0}; }
  EBB_INLINE void Add(float x) {
    if (count == 0.0f) first = x;
    count += 1.0f;
    const float d = Centered(x);
    mean_less_first += d / count;
    m2 += d * Centered(x);
  }
  EBB_INLINE void Join(const Moments& other) {
    if (other.count == 0.0f) return;
    if (count == 0.0f) {
      *this = other;
      return;
    }
    const float total = count + other.count;
    const float d = (other.first - first) + (other.mean_less_first - mean_less_first);
    const float part = other.count / total;
    mean_less_first += d * part;
    m2 += other.m2 + d * d * (count * part);
    count = total;
  }
  EBB_INLINE float Mean() const { return first + mean_less_first; }
  // The distance of an element from the mean.
  EBB_INLINE float Centered(float x) const { return (x - first) - mean_less_first; }
  // Of the population.
  EBB_INLINE float Variance() const { return m2 / count; }
};

}  // namespace ebb::device::math
