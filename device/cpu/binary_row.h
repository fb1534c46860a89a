// The loops of ops of two broadcast operands: y[i] = f(a[i], b[i]) a row at a time. F has no state.
#pragma once

#include "device/common/broadcast.h"
#include "device/cpu/common.h"
#include "device/cpu/vec.h"

namespace ebb::device::cpu {

// Operands of type T, results of type R. A stride is 0 (one element for the whole row) or 1.
template <class T, class R, class F>
EBB_CLONES void BinaryRow(const T* a, int64_t sa, const T* b, int64_t sb, R* y, int64_t n, F f) {
  if (sa != 0 && sb != 0) {
    EBB_IVDEP
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
  } else if (sa != 0) {
    const T scalar = *b;
    EBB_IVDEP
    for (int64_t i = 0; i < n; ++i) y[i] = f(a[i], scalar);
  } else if (sb != 0) {
    const T scalar = *a;
    EBB_IVDEP
    for (int64_t i = 0; i < n; ++i) y[i] = f(scalar, b[i]);
  } else {
    const R value = f(*a, *b);
    for (int64_t i = 0; i < n; ++i) y[i] = value;
  }
}

template <class T, class R, class F>
Kernel BinaryOf(const Broadcast<2>& plan) {
  return MakeKernel([plan](const KernelArgs& args) {
    const T* a = InPtr<T>(args, 0);
    const T* b = InPtr<T>(args, 1);
    R* y = OutPtr<R>(args);
    const int64_t sa = plan.stride[0][plan.rank - 1];
    const int64_t sb = plan.stride[1][plan.rank - 1];
    plan.ForEachRow([&](const std::array<int64_t, 2>& at, int64_t out) {
      BinaryRow(a + at[0], sa, b + at[1], sb, y + out, plan.row, F());
    });
    return absl::OkStatus();
  });
}

}  // namespace ebb::device::cpu
