// Elementwise kernels of up to three operands that broadcast: y = f(x0, x1, ...). Operands of the
// output's size go through Map; others are found by strides, 16 bytes at a time where rows are
// multiples of that: in a row an operand is contiguous or one element throughout.
#pragma once

#include <utility>

#include "device/cuda/launch.h"
#include "device/cuda/strides.h"

namespace ebb::device::cuda {
namespace internal {

template <int kCount, class F, class Y, class... X>
struct BroadcastMap {
  static constexpr int kOperands = sizeof...(X);

  EBB_INLINE void operator()(int64_t pack) const { Run(pack, std::index_sequence_for<X...>()); }
  template <size_t... k>
  EBB_INLINE void Run(int64_t pack, std::index_sequence<k...>) const {
    const auto offsets = strides.Of(pack);
    Store(pack, Load(static_cast<const X*>(x[k]) + offsets.at[k], repeated[k])...);
  }
  // By value: all loads come before the store, which may be to the same bytes.
  EBB_INLINE void Store(int64_t pack, const Pack<X, kCount>... in) const {
    Pack<Y, kCount> out;
    EBB_UNROLL
    for (int e = 0; e < kCount; ++e) out.at[e] = Stored<Y>(f(Read(in.at[e])...));
    reinterpret_cast<Pack<Y, kCount>*>(y)[pack] = out;
  }
  template <class T>
  static EBB_INLINE Pack<T, kCount> Load(const T* from, bool repeat) {
    if (!repeat) return *reinterpret_cast<const Pack<T, kCount>*>(from);
    Pack<T, kCount> result;
    const T value = *from;
    EBB_UNROLL
    for (int e = 0; e < kCount; ++e) result.at[e] = value;
    return result;
  }

  F f;
  Y* y;
  const void* x[kOperands];
  bool repeated[kOperands];
  Strides<kOperands> strides;  // of packs
};

// May rows be cut into packs of `count`?
template <int K>
bool RowsArePacks(const Broadcast<K>& plan, int64_t count) {
  const int last = plan.rank - 1;
  if (plan.row % count != 0) return false;
  for (int k = 0; k < K; ++k) {
    if (plan.stride[k][last] == 0) continue;
    for (int d = 0; d < last; ++d) {
      if (plan.stride[k][d] % count != 0) return false;
    }
  }
  return true;
}

template <int K>
Strides<K> PackStrides(const Broadcast<K>& plan, int64_t count) {
  Strides<K> strides;
  for (int d = plan.rank - 1; d >= 0; --d) {
    const bool row = d == plan.rank - 1;
    int64_t steps[K];
    for (int k = 0; k < K; ++k) steps[k] = plan.stride[k][d] * (row ? count : 1);
    strides.Append(row ? plan.dim[d] / count : plan.dim[d], steps);
  }
  return strides;
}

template <int kCount, class F, class Y, class... X, size_t... k>
absl::Status RunBroadcast(const Launch& at, const Broadcast<sizeof...(X)>& plan, const F& f,
                          const KernelArgs& args, std::index_sequence<k...>) {
  const int last = plan.rank - 1;
  return ForEach(at, plan.rows * plan.row / kCount,
                 BroadcastMap<kCount, F, Y, X...>{f,
                                                  OutPtr<Y>(args),
                                                  {InPtr<X>(args, k)...},
                                                  {plan.stride[k][last] == 0 ...},
                                                  PackStrides(plan, kCount)});
}

}  // namespace internal

// f of the node's inputs 0, 1, ..., one a type X.
template <class Y, class... X, class F>
CudaKernel BroadcastKernel(const Broadcast<sizeof...(X)>& plan, const F& f) {
  constexpr int kOperands = sizeof...(X);
  bool same_size = plan.rank == 1;
  for (int k = 0; k < kOperands; ++k) same_size = same_size && plan.stride[k][0] == 1;
  constexpr int kCount = internal::kPackOf<Y, X...>;
  const bool packs = internal::RowsArePacks(plan, kCount);
  return MakeCudaKernel([=](const Launch& at, const KernelArgs& args) {
    const auto run = [&]<size_t... k>(std::index_sequence<k...> operands) {
      if (same_size) return Map(at, plan.row, f, OutPtr<Y>(args), InPtr<X>(args, k)...);
      if (packs && internal::AlignedTo16(OutPtr<Y>(args), InPtr<X>(args, k)...)) {
        return internal::RunBroadcast<kCount, F, Y, X...>(at, plan, f, args, operands);
      }
      return internal::RunBroadcast<1, F, Y, X...>(at, plan, f, args, operands);
    };
    return run(std::index_sequence_for<X...>());
  });
}

}  // namespace ebb::device::cuda
