// Normalisation by rows: what layer, RMS and group normalisation share. Sums over a row run over
// fixed lanes; those over rows in float over blocks of rows, then in double.
#pragma once

#include <algorithm>

#include "device/common/norm_rows.h"
#include "device/cpu/common.h"

namespace ebb::device::cpu {

struct Moments {
  float mean, inverse;  // inverse = 1 / sqrt(population variance + epsilon)
};
Moments MomentsOf(const float* x, int64_t n, double epsilon);

// Outputs 1, ... `sums` of a gradient: sums over rows, one a position of the row. `grad_row(r,
// part)` does row r and adds its share to `part`, [sums, size]. Needs RowSumsWorkspace().
inline Bytes RowSumsWorkspace(NormRows rows, int64_t sums) {
  return Bytes(rows.size * sums * static_cast<int64_t>(sizeof(double) + sizeof(float)));
}
template <class F>
void SumOverRows(NormRows rows, int64_t sums, const KernelArgs& args, F grad_row) {
  constexpr int64_t kBlockRows = 64;
  const int64_t n = sums * rows.size;
  double* const total = static_cast<double*>(args.workspace);
  float* const part = reinterpret_cast<float*>(total + n);
  std::fill_n(total, n, 0.0);
  for (int64_t first = 0; first < rows.rows; first += kBlockRows) {
    std::fill_n(part, n, 0.0f);
    for (int64_t r = first; r < std::min(rows.rows, first + kBlockRows); ++r) grad_row(r, part);
    for (int64_t i = 0; i < n; ++i) total[i] += static_cast<double>(part[i]);
  }
  for (int64_t s = 0; s < sums; ++s) {
    float* const out = OutPtr<float>(args, static_cast<size_t>(s) + 1);
    for (int64_t i = 0; i < rows.size; ++i) {
      out[i] = static_cast<float>(total[s * rows.size + i]);
    }
  }
}

}  // namespace ebb::device::cpu
