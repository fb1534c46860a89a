// Positions sorted by the row that each belongs to, equal rows in order of position: what gradients
// of look-ups add by, without atomics. By merge ranks: in each pass every element finds its place
// in the neighbouring run by binary search, so that no pass needs more than a loop over elements.
#pragma once

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/cuda/launch.h"

namespace ebb::device::cuda {

// A row and a position; all are different, so their order is the stable one.
struct SortKey {
  EBB_INLINE int64_t row() const { return static_cast<int64_t>(bits >> 32); }
  EBB_INLINE int64_t position() const { return static_cast<int64_t>(bits & 0xffffffffu); }
  uint64_t bits;
};

inline constexpr int64_t kSortBlock = 256;  // sorted by counting, then merged

inline Bytes SortWorkspace(int64_t count) {
  return Bytes(2 * count * static_cast<int64_t>(sizeof(SortKey)));
}

// Unimplemented beyond what a key holds.
inline absl::Status CheckSortable(const Node& node, int64_t rows, int64_t count) {
  if (rows < INT32_MAX && count < INT32_MAX) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(node.op->name,
                                               " on cuda takes fewer than 2^31 rows ",
                                               "and indices, not ", rows, " and ", count));
}

namespace internal {

template <class RowOf>
struct MakeKeys {
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t row = row_of(i);
    const auto place = static_cast<uint64_t>(row < 0 ? rows : row);
    keys[i].bits = place << 32 | static_cast<uint64_t>(i);
  }
  RowOf row_of;
  SortKey* keys;
  int64_t rows;
};

struct RankInBlock {
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t begin = i / kSortBlock * kSortBlock;
    const int64_t end = begin + kSortBlock < count ? begin + kSortBlock : count;
    const uint64_t key = from[i].bits;
    int64_t place = begin;
    for (int64_t j = begin; j < end; ++j) place += from[j].bits < key ? 1 : 0;
    to[place].bits = key;
  }
  const SortKey* from;
  SortKey* to;
  int64_t count;
};

struct MergeRuns {
  EBB_INLINE void operator()(int64_t i) const {
    const int64_t run = i >> log_width;
    const int64_t begin = run << log_width;
    const int64_t other = (run ^ 1) << log_width;
    const int64_t width = int64_t{1} << log_width;
    const uint64_t key = from[i].bits;
    int64_t low = other < count ? other : count;
    int64_t high = other + width < count ? other + width : count;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (from[middle].bits < key) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    // A run without a neighbour stays where it is.
    const int64_t before = other < count ? low - other : 0;
    to[(begin < other ? begin : other) + (i - begin) + before].bits = key;
  }
  const SortKey* from;
  SortKey* to;
  int64_t count;
  int log_width;
};

}  // namespace internal

// row_of(i), for positions i in [0, count), is a row in [0, rows), or -1 for none: those come last,
// as row `rows`. `workspace` of SortWorkspace() bytes; *sorted points into it.
template <class RowOf>
absl::Status SortByRow(const Launch& at, int64_t rows, int64_t count, const RowOf& row_of,
                       void* workspace, const SortKey** sorted) {
  auto* from = static_cast<SortKey*>(workspace);
  SortKey* to = from + count;
  EBB_RETURN_IF_ERROR(ForEach(at, count, internal::MakeKeys<RowOf>{row_of, from, rows}));
  EBB_RETURN_IF_ERROR(ForEach(at, count, internal::RankInBlock{from, to, count}));
  static_assert(kSortBlock == 1 << 8);
  for (int log_width = 8; (int64_t{1} << log_width) < count; ++log_width) {
    std::swap(from, to);
    EBB_RETURN_IF_ERROR(ForEach(at, count, internal::MergeRuns{from, to, count, log_width}));
  }
  *sorted = to;
  return absl::OkStatus();
}

}  // namespace ebb::device::cuda
