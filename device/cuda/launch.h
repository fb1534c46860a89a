// The four shapes of loop that every own kernel is written in: ForEach, Map, Rows and Sums.
// Compiled by nvcc they start a kernel; compiled by the host's compiler (for the test double) they
// enqueue the same functor as a loop that adds in the same order, so that arithmetic and indexing
// are tested without a GPU. Orders of summation depend on sizes alone. Functors are trivially
// copyable structs whose operators are EBB_INLINE; pointers in them are of the device's memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <type_traits>

#include "absl/status/status.h"
#include "device/common/stored.h"
#include "device/cuda/kernel.h"
#include "device/math/divisor.h"
#include "device/math/scalar.h"

#if defined(__CUDACC__)
#include <cuda_runtime_api.h>
#endif

namespace ebb::device::cuda {

#if defined(__CUDACC__)
#define EBB_UNROLL _Pragma("unroll")
#else
#define EBB_UNROLL _Pragma("GCC unroll 16")
#endif

// Kernels say that one block a multiprocessor is enough (__launch_bounds__(, 1)): else ptxas spills
// a few registers for the sake of more blocks.
inline constexpr int kBlock = 256;              // threads of a block of ForEach and Map
inline constexpr int64_t kMaxBlocks = 1 << 20;  // of a grid; the rest by striding

#if defined(__CUDACC__)
// Ok, or why the launch just made was refused (cuda_api.cc).
absl::Status LaunchStatus(const char* what);
#else
// The double: runs `work` after what is on the stream already.
absl::Status EnqueueOnDouble(Stream stream, std::function<void()> work);
// Elements of a loop know nothing of each other: the double's go from either end, as it is told.
enum class LoopOrder { kForwards, kBackwards };
LoopOrder OrderOnDouble(Stream stream);
template <class F>
void Loop(LoopOrder order, int64_t n, const F& f) {
  for (int64_t i = 0; i < n; ++i) f(order == LoopOrder::kForwards ? i : n - 1 - i);
}
#endif

// ---- ForEach: f(i) for every i in [0, n), each by itself.

#if defined(__CUDACC__)
template <class F>
__global__ void __launch_bounds__(kBlock, 1) ForEachKernel(F f, int64_t n) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kBlock;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x; i < n; i += step) f(i);
}
#endif

template <class F>
absl::Status ForEach(const Launch& at, int64_t n, const F& f) {
  static_assert(std::is_trivially_copyable_v<F>);
  if (n <= 0) return absl::OkStatus();
#if defined(__CUDACC__)
  const int64_t blocks = std::min((n + kBlock - 1) / kBlock, kMaxBlocks);
  ForEachKernel<<<static_cast<unsigned>(blocks), kBlock, 0, at.stream>>>(f, n);
  return LaunchStatus("ForEach");
#else
  return EnqueueOnDouble(at.stream,
                         [f, n, order = OrderOnDouble(at.stream)] { Loop(order, n, f); });
#endif
}

// ---- Map: y[i] = f(x0[i], x1[i], ...) on contiguous arrays of one length, 16 bytes at a time
// where all of them start at multiples of 16. In place or not. f computes with what Read() makes of
// an element, and Stored() writes what it returns.

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T at[kCount];
};

namespace internal {

template <class F, class Y, class... X>
EBB_INLINE void MapOne(const F& f, int64_t i, Y* y, const X*... x) {
  y[i] = Stored<Y>(f(Read(x[i])...));
}

// `kCount` elements: 16 bytes of the widest type.
template <int kCount, class F, class Y, class... X>
EBB_INLINE void MapPack(const F& f, int64_t p, Y* y, const X*... x) {
  // By value: all loads come before the store, which may be to the same bytes.
  const auto run = [&](const Pack<X, kCount>... in) {
    Pack<Y, kCount> out;
    EBB_UNROLL
    for (int k = 0; k < kCount; ++k) out.at[k] = Stored<Y>(f(Read(in.at[k])...));
    reinterpret_cast<Pack<Y, kCount>*>(y)[p] = out;
  };
  run(reinterpret_cast<const Pack<X, kCount>*>(x)[p]...);
}

template <class... T>
bool AlignedTo16(const T*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

template <class... T>
inline constexpr int kPackOf = 16 / static_cast<int>(std::max({sizeof(T)...}));

#if defined(__CUDACC__)
// `packs` packs, and from there element by element.
template <int kCount, class F, class Y, class... X>
__global__ void __launch_bounds__(kBlock, 1)
    MapKernel(F f, int64_t packs, int64_t n, Y* y, const X*... x) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kBlock;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kBlock + threadIdx.x;
  for (int64_t p = thread; p < packs; p += step) MapPack<kCount>(f, p, y, x...);
  EBB_NO_UNROLL
  for (int64_t i = packs * kCount + thread; i < n; i += step) MapOne(f, i, y, x...);
}
#endif

}  // namespace internal

template <class F, class Y, class... X>
absl::Status Map(const Launch& at, int64_t n, const F& f, Y* y, const X*... x) {
  static_assert(std::is_trivially_copyable_v<F>);
  if (n <= 0) return absl::OkStatus();
  constexpr int kCount = internal::kPackOf<Y, X...>;
  const int64_t packs = internal::AlignedTo16(y, x...) ? n / kCount : 0;
#if defined(__CUDACC__)
  const int64_t items = packs > 0 ? (n + kCount - 1) / kCount : n;
  const auto blocks = static_cast<unsigned>(std::min((items + kBlock - 1) / kBlock, kMaxBlocks));
  internal::MapKernel<kCount><<<blocks, kBlock, 0, at.stream>>>(f, packs, n, y, x...);
  return LaunchStatus("Map");
#else
  return EnqueueOnDouble(at.stream, [=, order = OrderOnDouble(at.stream)] {
    Loop(order, packs, [&](int64_t p) { internal::MapPack<kCount>(f, p, y, x...); });
    Loop(order, n - packs * kCount,
         [&](int64_t i) { internal::MapOne(f, packs * kCount + i, y, x...); });
  });
#endif
}

// ---- Rows: one block (or a warp, where rows are short) a row. F has
//   struct Sum;                                  trivially copyable, multiple of 4 bytes
//   Sum Zero() const;
//   void Add(Sum& sum, int64_t row, int64_t i) const;   element i of the row
//   void Join(Sum& sum, const Sum& other) const;        `other` is of later elements or lanes
//   void Done(int64_t row, const Sum& sum) const;       once a row
//   void Each(int64_t row, int64_t i, const Sum& sum) const;  then for every element; F::kEach says
//                                                             whether there is anything to do
// Lane t of T adds elements t, t+T, ... in order; lanes are joined as a tree.

inline constexpr int64_t kShortRow = 1024;  // rows up to here go to a warp
inline constexpr int kRowBlock = 512;       // threads of a longer one

constexpr int RowLanes(int64_t length) { return length <= kShortRow ? 32 : kRowBlock; }

#if defined(__CUDACC__)
namespace internal {

template <class T>
__device__ T ShuffleDown(const T& value, int offset) {
  static_assert(sizeof(T) % 4 == 0);
  T result;
  const auto* from = reinterpret_cast<const uint32_t*>(&value);
  auto* to = reinterpret_cast<uint32_t*>(&result);
  EBB_UNROLL
  for (size_t w = 0; w < sizeof(T) / 4; ++w) to[w] = __shfl_down_sync(0xffffffffu, from[w], offset);
  return result;
}

// Every lane gets lane 0's.
template <class T>
__device__ T Broadcast0(const T& value) {
  T result;
  const auto* from = reinterpret_cast<const uint32_t*>(&value);
  auto* to = reinterpret_cast<uint32_t*>(&result);
  EBB_UNROLL
  for (size_t w = 0; w < sizeof(T) / 4; ++w) to[w] = __shfl_sync(0xffffffffu, from[w], 0);
  return result;
}

template <class F>
__device__ typename F::Sum WarpJoin(const F& f, typename F::Sum sum) {
  EBB_UNROLL
  for (int offset = 16; offset > 0; offset /= 2) {
    const typename F::Sum other = ShuffleDown(sum, offset);
    f.Join(sum, other);
  }
  return sum;  // lane 0's counts
}

// Of a block of kThreads; every thread gets the result.
template <int kThreads, class F>
__device__ typename F::Sum BlockJoin(const F& f, typename F::Sum sum) {
  constexpr int kWarps = kThreads / 32;
  __shared__ alignas(16) unsigned char bytes[kWarps * sizeof(typename F::Sum)];
  auto* const shared = reinterpret_cast<typename F::Sum*>(bytes);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  sum = WarpJoin(f, sum);
  if (lane == 0) shared[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    sum = lane < kWarps ? shared[lane] : f.Zero();
    EBB_UNROLL
    for (int offset = kWarps / 2; offset > 0; offset /= 2) {
      const typename F::Sum other = ShuffleDown(sum, offset);
      if (lane < offset) f.Join(sum, other);
    }
    if (lane == 0) shared[0] = sum;
  }
  __syncthreads();
  sum = shared[0];
  __syncthreads();
  return sum;
}

template <class F>
__global__ void __launch_bounds__(kBlock, 1) ShortRowsKernel(F f, int64_t rows, int64_t length) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t step = static_cast<int64_t>(gridDim.x) * (kBlock / 32);
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * (kBlock / 32) + threadIdx.x / 32;
       row < rows; row += step) {
    typename F::Sum sum = f.Zero();
    for (int64_t i = lane; i < length; i += 32) f.Add(sum, row, i);
    sum = Broadcast0(WarpJoin(f, sum));
    if (lane == 0) f.Done(row, sum);
    if constexpr (F::kEach) {
      for (int64_t i = lane; i < length; i += 32) f.Each(row, i, sum);
    }
    __syncwarp();
  }
}

template <class F>
__global__ void __launch_bounds__(kRowBlock, 1) LongRowsKernel(F f, int64_t rows, int64_t length) {
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    typename F::Sum sum = f.Zero();
    for (int64_t i = threadIdx.x; i < length; i += kRowBlock) f.Add(sum, row, i);
    sum = BlockJoin<kRowBlock>(f, sum);
    if (threadIdx.x == 0) f.Done(row, sum);
    if constexpr (F::kEach) {
      for (int64_t i = threadIdx.x; i < length; i += kRowBlock) f.Each(row, i, sum);
    }
  }
}

}  // namespace internal
#else
namespace internal {

// The kernels above as loops: the same lanes, the same tree.
template <class F>
void RowOnHost(const F& f, int64_t row, int64_t length) {
  const int lanes = RowLanes(length);
  typename F::Sum sums[kRowBlock];
  for (int t = 0; t < lanes; ++t) {
    sums[t] = f.Zero();
    for (int64_t i = t; i < length; i += lanes) f.Add(sums[t], row, i);
  }
  for (int warp = 0; warp < lanes; warp += 32) {
    for (int offset = 16; offset > 0; offset /= 2) {
      for (int t = 0; t < offset; ++t) f.Join(sums[warp + t], sums[warp + t + offset]);
    }
  }
  for (int offset = lanes / 64; offset > 0; offset /= 2) {
    for (int w = 0; w < offset; ++w) f.Join(sums[w * 32], sums[(w + offset) * 32]);
  }
  const typename F::Sum sum = sums[0];
  f.Done(row, sum);
  if constexpr (F::kEach) {
    for (int64_t i = 0; i < length; ++i) f.Each(row, i, sum);
  }
}

}  // namespace internal
#endif

template <class F>
absl::Status Rows(const Launch& at, int64_t rows, int64_t length, const F& f) {
  static_assert(std::is_trivially_copyable_v<F> && std::is_trivially_copyable_v<typename F::Sum>);
  static_assert(sizeof(typename F::Sum) % 4 == 0);
  if (rows <= 0) return absl::OkStatus();
#if defined(__CUDACC__)
  if (length <= kShortRow) {
    constexpr int64_t kRowsABlock = kBlock / 32;
    const int64_t blocks = std::min((rows + kRowsABlock - 1) / kRowsABlock, kMaxBlocks);
    internal::ShortRowsKernel<<<static_cast<unsigned>(blocks), kBlock, 0, at.stream>>>(f, rows,
                                                                                       length);
  } else {
    const int64_t blocks = std::min(rows, kMaxBlocks);
    internal::LongRowsKernel<<<static_cast<unsigned>(blocks), kRowBlock, 0, at.stream>>>(f, rows,
                                                                                         length);
  }
  return LaunchStatus("Rows");
#else
  return EnqueueOnDouble(at.stream, [f, rows, length, order = OrderOnDouble(at.stream)] {
    Loop(order, rows, [&](int64_t row) { internal::RowOnHost(f, row, length); });
  });
#endif
}

// ---- Sums: for every key in [0, keys) a sum over `length` elements, where few long sums would
// leave most of the GPU idle: elements are cut into chunks, and the chunks' sums, which lie in
// `partial`, are added as a row. F as for Rows, without Each (kEach is not looked at): Add(sum,
// key, i). Where neighbouring keys are neighbours in memory (columns of a matrix) say kByColumns:
// lanes then walk over keys.

enum class SumsBy { kRows, kColumns };

inline constexpr int64_t kSumChunk = 4096;  // elements of one chunk, at least
inline constexpr int64_t kMaxChunks = 4096;
inline constexpr int64_t kColumnChunk = 64;

// How many chunks `length` elements are cut into; depends on sizes alone.
constexpr int64_t SumChunks(SumsBy by, int64_t keys, int64_t length) {
  const int64_t least = by == SumsBy::kRows ? kSumChunk : kColumnChunk;
  // Enough work for the largest GPUs without chunks: no more of them than needed.
  const int64_t wanted = by == SumsBy::kRows
                             ? (keys >= 512 ? 1 : 1024 / std::max<int64_t>(keys, 1))
                             : std::max<int64_t>(1, 262144 / std::max<int64_t>(keys, 1));
  return std::clamp<int64_t>(std::min((length + least - 1) / least, wanted), 1, kMaxChunks);
}
template <class F>
Bytes SumsWorkspace(SumsBy by, int64_t keys, int64_t length) {
  const int64_t chunks = SumChunks(by, keys, length);
  return chunks == 1 ? Bytes(0)
                     : Bytes(static_cast<int64_t>(sizeof(typename F::Sum)) * chunks * keys);
}

namespace internal {

// Rows of chunks: row = key * chunks + chunk; its sum goes to partial[row], or is done when it is
// the only one.
template <class F>
struct ChunkRow {
  using Sum = typename F::Sum;
  static constexpr bool kEach = false;
  EBB_INLINE Sum Zero() const { return f.Zero(); }
  EBB_INLINE void Add(Sum& sum, int64_t row, int64_t i) const {
    const int64_t key = row / chunks;
    const int64_t at = (row - key * chunks) * chunk + i;
    if (at < length) f.Add(sum, key, at);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { f.Join(sum, other); }
  EBB_INLINE void Done(int64_t row, const Sum& sum) const {
    if (chunks == 1) {
      f.Done(row, sum);
    } else {
      partial[row] = sum;
    }
  }
  EBB_INLINE void Each(int64_t, int64_t, const Sum&) const {}
  F f;
  Sum* partial;
  Divisor chunks;
  int64_t chunk, length;
};

// One thread a column and chunk: neighbouring threads read neighbouring columns.
template <class F>
struct ChunkColumn {
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t key = i % keys;
    const int64_t c = i / keys;
    typename F::Sum sum = f.Zero();
    const int64_t end = (c + 1) * chunk < length ? (c + 1) * chunk : length;
    for (int64_t e = c * chunk; e < end; ++e) f.Add(sum, key, e);
    if (chunks == 1) {
      f.Done(key, sum);
    } else {
      partial[key * chunks + c] = sum;
    }
  }
  F f;
  typename F::Sum* partial;
  int64_t keys, chunks, chunk, length;
};

// The chunks' sums of a key, as a row.
template <class F>
struct JoinChunks {
  using Sum = typename F::Sum;
  static constexpr bool kEach = false;
  EBB_INLINE Sum Zero() const { return f.Zero(); }
  EBB_INLINE void Add(Sum& sum, int64_t key, int64_t c) const {
    f.Join(sum, partial[key * chunks + c]);
  }
  EBB_INLINE void Join(Sum& sum, const Sum& other) const { f.Join(sum, other); }
  EBB_INLINE void Done(int64_t key, const Sum& sum) const { f.Done(key, sum); }
  EBB_INLINE void Each(int64_t, int64_t, const Sum&) const {}
  F f;
  const Sum* partial;
  int64_t chunks;
};

}  // namespace internal

// `workspace`: SumsWorkspace<F>() bytes.
template <class F>
absl::Status Sums(const Launch& at, SumsBy by, int64_t keys, int64_t length, const F& f,
                  void* workspace) {
  if (keys <= 0) return absl::OkStatus();
  const int64_t chunks = SumChunks(by, keys, length);
  const int64_t chunk = (length + chunks - 1) / chunks;
  auto* const partial = static_cast<typename F::Sum*>(workspace);
  absl::Status status =
      by == SumsBy::kRows
          ? Rows(at, keys * chunks, chunk, internal::ChunkRow<F>{f, partial, chunks, chunk, length})
          : ForEach(at, keys * chunks,
                    internal::ChunkColumn<F>{f, partial, keys, chunks, chunk, length});
  if (!status.ok() || chunks == 1) return status;
  return Rows(at, keys, chunks, internal::JoinChunks<F>{f, partial, chunks});
}

}  // namespace ebb::device::cuda
