// Strided copies: runs where both sides are contiguous, tiles where only one dimension each is.
#include "device/cpu/strided.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

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
  // The dimension along which the source is contiguous, when the target's is another.
  int across = -1;
  if (c.to[last] == 1 && c.from[last] != 1) {
    for (int d = 0; d < last; ++d) {
      if (c.from[d] == 1 && c.dim[d] > 1) across = d;
    }
  }
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

Shape LogicalStrides(const Value& value) {
  const Shape dense = graph::StridesOf(PhysicalShape(value));
  Shape strides(value.type.shape.size());
  for (size_t d = 0; d < strides.size(); ++d) {
    strides[d] = dense[static_cast<size_t>(
        PhysicalAxis(static_cast<int64_t>(d), strides.size(), value.layout))];
  }
  return strides;
}

StridedCopy MakeStridedCopy(const Shape& dims, const Shape& from, const Shape& to, DType dtype,
                            int64_t from_base, int64_t to_base) {
  std::vector<size_t> order;
  bool empty = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    empty |= dims[d] == 0;
    if (dims[d] != 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::abs(to[a]) > std::abs(to[b]); });
  StridedCopy copy;
  copy.from_base = from_base;
  copy.to_base = to_base;
  copy.element = graph::SizeOf(dtype).count();
  for (const size_t d : order) {
    const int last = copy.rank - 1;
    if (copy.rank > 0 && copy.from[last] == from[d] * dims[d] && copy.to[last] == to[d] * dims[d]) {
      copy.dim[last] *= dims[d];
    } else {
      copy.dim[copy.rank++] = dims[d];
    }
    copy.from[copy.rank - 1] = from[d];
    copy.to[copy.rank - 1] = to[d];
  }
  if (copy.rank == 0 || empty) {
    copy.rank = 1;
    copy.dim[0] = empty ? 0 : 1;
    copy.from[0] = copy.to[0] = 1;
  }
  return copy;
}

void StridedCopy::Run(const void* source, void* target) const {
  switch (element) {
    case 1:
      return RunOf(*this, static_cast<const uint8_t*>(source), static_cast<uint8_t*>(target));
    case 4:
      return RunOf(*this, static_cast<const uint32_t*>(source), static_cast<uint32_t*>(target));
    default:
      return RunOf(*this, static_cast<const uint64_t*>(source), static_cast<uint64_t*>(target));
  }
}

}  // namespace ebb::device::cpu
