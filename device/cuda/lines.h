// Loops over rows that are made of those of launch.h: rows by one thread each, and elements of rows
// without a sum.
#pragma once

#include "device/cuda/launch.h"
#include "device/math/divisor.h"

namespace ebb::device::cuda {

// Rows up to here are too short for a warp.
inline constexpr int64_t kTinyRow = 16;

namespace internal {

template <class F>
struct LineOfThread {
  EBB_INLINE void operator()(int64_t row) const {
    typename F::Sum sum = f.Zero();
    for (int64_t i = 0; i < length; ++i) f.Add(sum, row, i);
    f.Done(row, sum);
    if constexpr (F::kEach) {
      for (int64_t i = 0; i < length; ++i) f.Each(row, i, sum);
    }
  }
  F f;
  int64_t length;
};

template <class F>
struct CellOfRow {
  struct Sum {
    int32_t none;
  };
  static constexpr bool kEach = true;
  EBB_INLINE Sum Zero() const { return {0}; }
  EBB_INLINE void Add(Sum&, int64_t, int64_t) const {}
  EBB_INLINE void Join(Sum&, const Sum&) const {}
  EBB_INLINE void Done(int64_t, const Sum&) const {}
  EBB_INLINE void Each(int64_t row, int64_t i, const Sum&) const { f(row, i); }
  F f;
};

template <class F>
struct CellOfThread {
  EBB_INLINE void operator()(int64_t at) const {
    const int64_t row = at / length;
    f(row, at - row * length);
  }
  F f;
  Divisor length;
};

}  // namespace internal

// As Rows (launch.h), which it calls for kRows unless rows are tiny. For kColumns, where
// neighbouring rows are neighbours in memory, one thread walks over a row in order.
template <class F>
absl::Status Lines(const Launch& at, SumsBy by, int64_t rows, int64_t length, const F& f) {
  if (by == SumsBy::kRows && length > kTinyRow) return Rows(at, rows, length, f);
  return ForEach(at, rows, internal::LineOfThread<F>{f, length});
}

// f(row, i) for every element i in [0, length) of every row, each by itself; neighbouring i are
// neighbours in memory.
template <class F>
absl::Status Cells(const Launch& at, int64_t rows, int64_t length, const F& f) {
  if (length > kTinyRow) return Rows(at, rows, length, internal::CellOfRow<F>{f});
  return ForEach(at, rows * length, internal::CellOfThread<F>{f, length});
}

}  // namespace ebb::device::cuda
