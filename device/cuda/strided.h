// Strided copies on the GPU: by 16 bytes where both sides have runs of them, through tiles where
// each side is contiguous along a dimension of its own, else element by element.
#pragma once

#include "device/common/strided.h"
#include "device/cuda/strides.h"
#include "device/cuda/tiles.h"

namespace ebb::device::cuda {
namespace internal {

template <class Unit>
struct StridedUnits {
  EBB_INLINE void operator()(int64_t i) const {
    const auto offset = views.Of(i);
    to[offset.at[1]] = from[offset.at[0]];
  }
  Strides<2> views;
  const Unit* from;
  Unit* to;
};

template <class T>
struct StridedTiles {
  using Element = T;
  EBB_INLINE T Load(int64_t batch, int64_t p, int64_t q) const {
    return from[batches.Of(batch).at[0] + p + q * from_q];
  }
  EBB_INLINE void Store(int64_t batch, int64_t p, int64_t q, T value) const {
    to[batches.Of(batch).at[1] + p * to_p + q] = value;
  }
  Strides<2> batches;
  const T* from;
  T* to;
  int64_t from_q, to_p;
};

inline Strides<2> ViewsOf(const StridedCopy& copy, int without = -1, int also_without = -1) {
  Strides<2> views;
  for (int d = copy.rank - 1; d >= 0; --d) {
    if (d == without || d == also_without) continue;
    views.Append(copy.dim[d], {copy.from[d], copy.to[d]});
  }
  return views;
}

inline int64_t ElementsOf(const StridedCopy& copy) {
  int64_t n = 1;
  for (int d = 0; d < copy.rank; ++d) n *= copy.dim[d];
  return n;
}

// The same copy in units of `count` elements; a count of elements without a unit gives false.
inline bool InUnits(const StridedCopy& copy, int64_t count, StridedCopy* units) {
  const int last = copy.rank - 1;
  if (copy.from[last] != 1 || copy.to[last] != 1) return false;
  *units = copy;
  int64_t rest = copy.dim[last] % count;
  const auto divide = [&](int64_t& number) {
    rest |= number % count;
    number /= count;
  };
  units->dim[last] /= count;
  for (int d = 0; d < last; ++d) {
    divide(units->from[d]);
    divide(units->to[d]);
  }
  divide(units->from_base);
  divide(units->to_base);
  return rest == 0;
}

template <class Unit>
absl::Status RunUnits(const Launch& at, const StridedCopy& copy, const void* from, void* to) {
  return ForEach(at, ElementsOf(copy),
                 StridedUnits<Unit>{ViewsOf(copy), static_cast<const Unit*>(from) + copy.from_base,
                                    static_cast<Unit*>(to) + copy.to_base});
}

// Below this many elements a side a tile would be mostly empty.
inline constexpr int64_t kLeastTileSide = 8;

template <class T>
absl::Status RunStrided(const Launch& at, const StridedCopy& copy, const void* from, void* to) {
  using Line = Pack<uint32_t, 4>;
  StridedCopy lines;
  if (InUnits(copy, sizeof(Line) / sizeof(T), &lines) && AlignedTo16(from, to)) {
    return RunUnits<Line>(at, lines, from, to);
  }
  const int last = copy.rank - 1;
  const int across = copy.Across();
  if (across >= 0 && copy.dim[across] >= kLeastTileSide && copy.dim[last] >= kLeastTileSide) {
    const int64_t p_count = copy.dim[across], q_count = copy.dim[last];
    const TileGrid grid(ElementsOf(copy) / (p_count * q_count), p_count, q_count);
    return Tiles(
        at, grid,
        StridedTiles<T>{ViewsOf(copy, across, last), static_cast<const T*>(from) + copy.from_base,
                        static_cast<T*>(to) + copy.to_base, copy.from[last], copy.to[across]});
  }
  return RunUnits<T>(at, copy, from, to);
}

}  // namespace internal

inline absl::Status Run(const Launch& at, const StridedCopy& copy, const void* from, void* to) {
  switch (copy.element) {
    case 1:
      return internal::RunStrided<uint8_t>(at, copy, from, to);
    case 2:
      return internal::RunStrided<uint16_t>(at, copy, from, to);
    case 4:
      return internal::RunStrided<uint32_t>(at, copy, from, to);
    default:
      return internal::RunStrided<uint64_t>(at, copy, from, to);
  }
}

}  // namespace ebb::device::cuda
