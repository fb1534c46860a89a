// Loops and functions that the compiler vectorises, compiled once per instruction set and chosen
// when the program is loaded. A loop gives the same bits on each of them: no fused multiply-add is
// formed, and sums run over a fixed number of lanes.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "device/math/scalar.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define EBB_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
// Sanitizers cannot run inside the resolvers that pick a clone; clang 14 does not clone templates.
#define EBB_CLONES
#endif

// The iterations of the next loop touch different elements, even when input and output are one
// buffer.
#if defined(__clang__)
#define EBB_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#else
#define EBB_IVDEP _Pragma("GCC ivdep")
#endif

namespace ebb::device::cpu {

template <class F>
EBB_CLONES void Map1(const float* x, float* y, int64_t n, F f) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
}

template <class F>
EBB_CLONES void Map2(const float* a, const float* b, float* y, int64_t n, F f) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
}

// Sixteen lanes: one register with AVX-512, two with AVX2, four with SSE.
inline constexpr int kLanes = 16;
using Lanes = float __attribute__((vector_size(64), aligned(4), may_alias));

// Sum of f(i) for i in [0, n), where `f` adds element i of its rows: float lanes over blocks of
// 2048 elements, blocks and tail in double.
template <class F>
EBB_INLINE double BlockedSum(int64_t n, F f) {
  double total = 0;
  int64_t i = 0;
  while (n - i >= kLanes) {
    const int64_t left = n - i;
    const int64_t end = i + (left < 2048 ? left / kLanes * kLanes : 2048);
    Lanes sum = {};
    for (; i < end; i += kLanes) {
      Lanes v;
      for (int l = 0; l < kLanes; ++l) v[l] = f(i + l);
      sum += v;
    }
    double block = 0;
    for (int l = 0; l < kLanes; ++l) block += static_cast<double>(sum[l]);
    total += block;
  }
  for (; i < n; ++i) total += static_cast<double>(f(i));
  return total;
}

}  // namespace ebb::device::cpu
