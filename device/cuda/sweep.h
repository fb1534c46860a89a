// The loop of optimizers: one pass over several arrays of one length, of which some are changed.
// Compiled twice like the loops of launch.h.
#pragma once

#include "device/cuda/launch.h"

namespace ebb::device::cuda {

// ---- Sweep: f(uniform, x0[i], x1[i], ...) for every i, 16 bytes at a time where all arrays start
// at multiples of 16. f takes elements of arrays that are not const by reference, and they are
// stored. F has
//   struct Uniform;           what is the same for all elements
//   Uniform Read() const;     once a thread, from the device's memory

namespace internal {

template <int kCount, class T>
EBB_INLINE void StorePack(T* x, int64_t p, const Pack<std::remove_const_t<T>, kCount>& pack) {
  if constexpr (!std::is_const_v<T>) reinterpret_cast<Pack<T, kCount>*>(x)[p] = pack;
}

template <int kCount, class F, class... X>
EBB_INLINE void SweepPack(const F& f, const typename F::Uniform& uniform, int64_t p, X*... x) {
  const auto run = [&](Pack<std::remove_const_t<X>, kCount>... v) {
    EBB_UNROLL
    for (int k = 0; k < kCount; ++k) f(uniform, v.at[k]...);
    (StorePack<kCount>(x, p, v), ...);
  };
  run(reinterpret_cast<const Pack<std::remove_const_t<X>, kCount>*>(x)[p]...);
}

#if defined(__CUDACC__)
template <int kCount, class F, class... X>
__global__ void __launch_bounds__(kBlock, 1) SweepKernel(F f, int64_t n, X*... x) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kBlock;
  const int64_t packs = n / kCount;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  const typename F::Uniform uniform = f.Read();
  for (int64_t p = thread; p < packs; p += step) SweepPack<kCount>(f, uniform, p, x...);
  const int64_t rest = packs * kCount + thread;
  if (rest < n) SweepPack<1>(f, uniform, rest, x...);
}
#endif

}  // namespace internal

template <class F, class... X>
absl::Status Sweep(const Launch& at, int64_t n, const F& f, X*... x) {
  static_assert(std::is_trivially_copyable_v<F>);
  if (n <= 0) return absl::OkStatus();
  constexpr int kCount = internal::kPackOf<X...>;
  const bool packed = internal::AlignedTo16(x...);
#if defined(__CUDACC__)
  const int64_t items = packed ? (n + kCount - 1) / kCount : n;
  const auto blocks = static_cast<unsigned>(std::min((items + kBlock - 1) / kBlock, kMaxBlocks));
  if (packed) {
    internal::SweepKernel<kCount><<<blocks, kBlock, 0, at.stream>>>(f, n, x...);
  } else {
    internal::SweepKernel<1><<<blocks, kBlock, 0, at.stream>>>(f, n, x...);
  }
  return LaunchStatus("Sweep");
#else
  return EnqueueOnDouble(at.stream, [=, order = OrderOnDouble(at.stream)] {
    const typename F::Uniform uniform = f.Read();
    const int64_t packs = packed ? n / kCount : 0;
    const int64_t first = packs * kCount;
    Loop(order, packs, [&](int64_t p) { internal::SweepPack<kCount>(f, uniform, p, x...); });
    Loop(order, n - first, [&](int64_t i) { internal::SweepPack<1>(f, uniform, first + i, x...); });
  });
#endif
}

}  // namespace ebb::device::cuda
