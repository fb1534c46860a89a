// The k first of every line in order: blocks are sorted by counting, neighbouring lists are merged
// by merge ranks, and no list is kept longer than k. Of equals the one at the lower position is
// first.
#pragma once

#include "base/status.h"
#include "device/common/axis.h"
#include "device/cuda/launch.h"
#include "device/cuda/strides.h"

namespace ebb::device::cuda {

inline constexpr int64_t kTopKBlock = 256;

// Lines along an axis: element a of line (o, i) is x[(o size + a) inner + i].
template <class T>
struct TopKLines {
  EBB_INLINE T Value(int64_t line, int64_t a) const {
    const auto [o, i] = Divide(line, inner);
    return x[(o * size + a) * inner + i];
  }
  EBB_INLINE bool IsBefore(int64_t a, T value, int64_t b, T other) const {
    if (Before(value, other, largest)) return true;
    return !Before(other, value, largest) && a < b;
  }
  const T* x;
  int64_t size;
  Divisor inner;
  int64_t k;
  bool largest;
};

// Positions that a line's lists have room for.
inline int64_t TopKRoom(int64_t size, int64_t k) {
  const int64_t blocks = (size + kTopKBlock - 1) / kTopKBlock;
  return std::min(size, blocks * std::min(kTopKBlock, k));
}
inline Bytes TopKWorkspace(int64_t lines, int64_t size, int64_t k) {
  return Bytes(2 * lines * TopKRoom(size, k) * static_cast<int64_t>(sizeof(int32_t)));
}

namespace internal {

template <class T>
struct RankBlocks {
  EBB_INLINE void operator()(int64_t at) const {
    const auto [line, a] = Divide(at, size);
    const int64_t block = a / kTopKBlock;
    const int64_t begin = block * kTopKBlock;
    const int64_t end = begin + kTopKBlock < lines.size ? begin + kTopKBlock : lines.size;
    const T own = lines.Value(line, a);
    int64_t place = 0;
    for (int64_t b = begin; b < end && place < keep; ++b) {
      place += lines.IsBefore(b, lines.Value(line, b), a, own) ? 1 : 0;
    }
    if (place < keep) to[line * room + block * keep + place] = static_cast<int32_t>(a);
  }
  TopKLines<T> lines;
  Divisor size;
  int64_t keep, room;
  int32_t* to;
};

// Lists of the best `keep` of `width` elements each, two and two.
template <class T>
struct MergeLists {
  EBB_INLINE void operator()(int64_t at) const {
    const auto [line, rest] = Divide(at, line_size);
    const auto [list, place] = Divide(rest, keep);
    if (place >= Length(list)) return;
    const int32_t* const base = from + line * room;
    const int64_t a = base[list * keep + place];
    const T own = lines.Value(line, a);
    const int64_t other = list ^ 1;
    const int32_t* const others = base + other * keep;
    int64_t low = 0;
    int64_t high = Length(other);
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const int64_t b = others[middle];
      if (lines.IsBefore(b, lines.Value(line, b), a, own)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (place + low < keep_next) {
      to[line * room + (list >> 1) * keep_next + place + low] = static_cast<int32_t>(a);
    }
  }
  EBB_INLINE int64_t Length(int64_t list) const {
    const int64_t left = lines.size - list * width;
    if (left <= 0) return 0;
    return left < keep ? left : static_cast<int64_t>(keep);
  }
  TopKLines<T> lines;
  Divisor line_size, keep;
  int64_t width, keep_next, room;
  const int32_t* from;
  int32_t* to;
};

template <class T>
struct TakeBest {
  EBB_INLINE void operator()(int64_t at) const {
    const auto [rest, i] = Divide(at, lines.inner);
    const auto [o, j] = Divide(rest, k);
    const int64_t line = o * lines.inner + i;
    const int64_t a = from[line * room + j];
    values[at] = lines.Value(line, a);
    positions[at] = a;
  }
  TopKLines<T> lines;
  Divisor k;
  int64_t room;
  const int32_t* from;
  T* values;
  int64_t* positions;
};

}  // namespace internal

// Values and positions [outer, k, inner] of `count` lines. `workspace`: TopKWorkspace() bytes.
template <class T>
absl::Status TopK(const Launch& at, int64_t count, const TopKLines<T>& lines, T* values,
                  int64_t* positions, void* workspace) {
  if (count == 0 || lines.k == 0) return absl::OkStatus();
  const int64_t room = TopKRoom(lines.size, lines.k);
  auto* from = static_cast<int32_t*>(workspace);
  int32_t* to = from + count * room;
  int64_t keep = std::min(kTopKBlock, lines.k);
  EBB_RETURN_IF_ERROR(
      ForEach(at, count * lines.size,
              internal::RankBlocks<T>{lines, Divisor(lines.size), keep, room, from}));
  for (int64_t width = kTopKBlock; width < lines.size; width *= 2) {
    const int64_t lists = (lines.size + width - 1) / width;
    const int64_t keep_next = std::min(2 * width, lines.k);
    EBB_RETURN_IF_ERROR(ForEach(at, count * lists * keep,
                                internal::MergeLists<T>{lines, Divisor(lists * keep), Divisor(keep),
                                                        width, keep_next, room, from, to}));
    std::swap(from, to);
    keep = keep_next;
  }
  return ForEach(at, count * lines.k,
                 internal::TakeBest<T>{lines, Divisor(lines.k), room, from, values, positions});
}

}  // namespace ebb::device::cuda
