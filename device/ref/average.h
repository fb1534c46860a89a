// The moving average of a parameter, which an update may keep.
#pragma once

#include <cstdint>

namespace ebb::device::ref {

// Of a parameter that has just been updated; it begins as what the first step leaves, as that of
// torch.optim.swa_utils.AveragedModel. No average, nothing to do.
template <class T>
void Average(T* ema, const T* param, int64_t n, double decay, const double* hyper) {
  if (ema == nullptr) return;
  const double keep = hyper[1] <= 1 ? 0 : decay;
  for (int64_t i = 0; i < n; ++i) {
    ema[i] = keep == 0 ? param[i] : static_cast<T>(keep * ema[i] + (1 - keep) * param[i]);
  }
}

}  // namespace ebb::device::ref
