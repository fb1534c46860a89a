// Strided copies: runs where both sides are contiguous, tiles where only one dimension each is.
#include "device/cpu/strided.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/vec.h"

namespace ebb::device::cpu {
namespace {

constexpr int64_t kTile = kLanes;

// Transposes a 16 x 16 tile of 4-byte elements: four rounds of shuffling row i with row i + 8.
EBB_INLINE void TransposeTile(const uint32_t* from, int64_t from_step, uint32_t* to,
                              int64_t to_step) {
  using Row = uint32_t __attribute__((vector_size(64), aligned(4), may_alias));
  Row rows[kTile];
  Row next[kTile];
  for (int64_t i = 0; i < kTile; ++i) std::memcpy(&rows[i], from + i * from_step, sizeof(Row));
  for (int round = 0; round < 4; ++round) {
    for (int64_t i = 0; i < kTile / 2; ++i) {
      next[2 * i] = __builtin_shufflevector(rows[i], rows[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20,
                                            5, 21, 6, 22, 7, 23);
      next[2 * i + 1] = __builtin_shufflevector(rows[i], rows[i + 8], 8, 24, 9, 25, 10, 26, 11, 27,
                                                12, 28, 13, 29, 14, 30, 15, 31);
    }
    for (int64_t i = 0; i < kTile; ++i) rows[i] = next[i];
  }
  for (int64_t i = 0; i < kTile; ++i) std::memcpy(to + i * to_step, &rows[i], sizeof(Row));
}

// A handful of long rows woven together, as the planes of an image become its pixels.
template <int kRows, class T>
EBB_INLINE void Weave(const T* from, int64_t from_q, T* to, int64_t count) {
  EBB_IVDEP
  for (int64_t p = 0; p < count; ++p) {
    for (int q = 0; q < kRows; ++q) to[p * kRows + q] = from[p + q * from_q];
  }
}

// to[q + p * to_p] = from[p + q * from_q]; both inner reads and writes stay within a tile's lines.
template <class T>
EBB_CLONES void TransposeTiles(const T* from, int64_t from_q, T* to, int64_t to_p, int64_t p_count,
                               int64_t q_count) {
  if (q_count == 3 && to_p == 3) return Weave<3>(from, from_q, to, p_count);
  for (int64_t p0 = 0; p0 < p_count; p0 += kTile) {
    const int64_t p_end = std::min(p0 + kTile, p_count);
    for (int64_t q0 = 0; q0 < q_count; q0 += kTile) {
      const int64_t q_end = std::min(q0 + kTile, q_count);
      if constexpr (sizeof(T) == 4) {
        if (p_end - p0 == kTile && q_end - q0 == kTile) {
          TransposeTile(from + p0 + q0 * from_q, from_q, to + q0 + p0 * to_p, to_p);
          continue;
        }
      }
      for (int64_t p = p0; p < p_end; ++p) {
        for (int64_t q = q0; q < q_end; ++q) to[q + p * to_p] = from[p + q * from_q];
      }
    }
  }
}

template <class T>
EBB_CLONES void CopyRow(const T* from, int64_t from_step, T* to, int64_t to_step, int64_t n) {
  EBB_IVDEP
  for (int64_t i = 0; i < n; ++i) to[i * to_step] = from[i * from_step];
}

template <class T>
void RunOf(const StridedCopy& c, const T* source, T* target) {
  const int last = c.rank - 1;
  const int across = c.Across();
  const bool runs = c.to[last] == 1 && c.from[last] == 1;
  int64_t count = 1;
  for (int d = 0; d < last; ++d) count *= d == across ? 1 : c.dim[d];
  if (c.dim[last] == 0) return;
  std::array<int64_t, kMaxRank> at{};
  int64_t from = c.from_base;
  int64_t to = c.to_base;
  for (int64_t i = 0; i < count; ++i) {
    if (across >= 0) {
      TransposeTiles(source + from, c.from[last], target + to, c.to[across], c.dim[across],
                     c.dim[last]);
    } else if (runs) {
      std::memcpy(target + to, source + from, static_cast<size_t>(c.dim[last]) * sizeof(T));
    } else {
      CopyRow(source + from, c.from[last], target + to, c.to[last], c.dim[last]);
    }
    for (int d = last - 1; d >= 0; --d) {
      if (d == across) continue;
      from += c.from[d];
      to += c.to[d];
      if (++at[d] < c.dim[d]) break;
      from -= c.from[d] * c.dim[d];
      to -= c.to[d] * c.dim[d];
      at[d] = 0;
    }
  }
}

}  // namespace

void Run(const StridedCopy& copy, const void* source, void* target) {
  switch (copy.element) {
    case 1:
      return RunOf(copy, static_cast<const uint8_t*>(source), static_cast<uint8_t*>(target));
    case 4:
      return RunOf(copy, static_cast<const uint32_t*>(source), static_cast<uint32_t*>(target));
    default:
      return RunOf(copy, static_cast<const uint64_t*>(source), static_cast<uint64_t*>(target));
  }
}

}  // namespace ebb::device::cpu
