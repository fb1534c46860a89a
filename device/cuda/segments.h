// Sums by row: for every row that positions belong to, the sum of those positions' values, column
// by column and in order of position; no atomics. The sorted positions are cut into chunks, a
// thread a chunk and column: what lies within a chunk is done there, and the parts of rows that go
// on beyond it are joined in double afterwards. A row that all positions share is no slower than
// others.
#pragma once

#include <cmath>

#include "device/cuda/sort.h"
#include "device/cuda/strides.h"

namespace ebb::device::cuda {

// Positions in a chunk: enough chunks to fill a GPU, few enough for their joining to be short.
inline int64_t SegmentChunk(int64_t count) {
  const auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(count)));
  return std::clamp<int64_t>(root / 2, 32, 512);
}
inline int64_t SegmentChunks(int64_t count) {
  const int64_t chunk = SegmentChunk(count);
  return (count + chunk - 1) / chunk;
}
inline Bytes SegmentSumsWorkspace(int64_t count, int64_t columns) {
  return SortWorkspace(count) +
         Bytes(2 * SegmentChunks(count) * columns * static_cast<int64_t>(sizeof(float)));
}

namespace internal {

// What the two passes know of the sorted positions. Of a chunk's two parts, kHead is of the row
// that goes on from the chunk before, kTail of one that begins here and goes on in the next.
struct SegmentChunkView {
  enum Part { kHead = 0, kTail = 1 };
  EBB_INLINE bool GoesOn(int64_t i) const {  // from i - 1 to i
    return i > 0 && i < count && keys[i - 1].row() == keys[i].row();
  }
  EBB_INLINE int64_t Begin(int64_t c) const { return c * chunk; }
  EBB_INLINE int64_t End(int64_t c) const {
    return (c + 1) * chunk < count ? (c + 1) * chunk : count;
  }
  EBB_INLINE float& At(int64_t c, Part part, int64_t column) const {
    return partial[(2 * c + part) * columns + column];
  }
  const SortKey* keys;
  float* partial;
  int64_t rows, count, chunk;
  Divisor columns;
};

template <class F>
struct SumChunk {
  EBB_INLINE void operator()(int64_t i) const {
    const auto [c, column] = Divide(i, view.columns);
    const int64_t end = view.End(c);
    int64_t position = view.Begin(c);
    bool head = view.GoesOn(position);
    while (position < end) {
      const int64_t row = view.keys[position].row();
      if (row == view.rows) return;
      float sum = 0;
      for (; position < end && view.keys[position].row() == row; ++position) {
        sum += f.Value(view.keys[position].position(), column);
      }
      if (head) {
        view.At(c, SegmentChunkView::kHead, column) = sum;
      } else if (position == end && view.GoesOn(end)) {
        view.At(c, SegmentChunkView::kTail, column) = sum;
      } else {
        f.Done(row, column, sum);
      }
      head = false;
    }
  }
  SegmentChunkView view;
  F f;
};

template <class F>
struct JoinSegments {
  EBB_INLINE void operator()(int64_t i) const {
    const auto [first, column] = Divide(i, view.columns);
    const int64_t end = view.End(first);
    if (!view.GoesOn(end)) return;
    const int64_t row = view.keys[end].row();
    const int64_t begin = view.Begin(first);
    const bool begins_before = view.keys[begin].row() == row && view.GoesOn(begin);
    if (begins_before || row == view.rows) return;
    double sum = view.At(first, SegmentChunkView::kTail, column);
    for (int64_t c = first + 1;; ++c) {
      sum += static_cast<double>(view.At(c, SegmentChunkView::kHead, column));
      const int64_t last = view.End(c);
      if (view.keys[last - 1].row() != row || !view.GoesOn(last)) break;
    }
    f.Done(row, column, static_cast<float>(sum));
  }
  SegmentChunkView view;
  F f;
};

}  // namespace internal

// F has
//   float Value(int64_t position, int64_t column) const;
//   void Done(int64_t row, int64_t column, float sum) const;   once for every row that has
//   positions
// `sorted` is what SortByRow(workspace) gave; `workspace`: SegmentSumsWorkspace() bytes.
template <class F>
absl::Status SumsOfSorted(const Launch& at, int64_t rows, int64_t count, int64_t columns,
                          const SortKey* sorted, const F& f, void* workspace) {
  if (count == 0 || columns == 0) return absl::OkStatus();
  auto* const partial = reinterpret_cast<float*>(static_cast<SortKey*>(workspace) + 2 * count);
  const internal::SegmentChunkView view{sorted,          partial, rows, count, SegmentChunk(count),
                                        Divisor(columns)};
  const int64_t threads = SegmentChunks(count) * columns;
  EBB_RETURN_IF_ERROR(ForEach(at, threads, internal::SumChunk<F>{view, f}));
  if (SegmentChunks(count) == 1) return absl::OkStatus();
  return ForEach(at, threads, internal::JoinSegments<F>{view, f});
}

// The same of positions that are not sorted yet; row_of as for SortByRow.
template <class RowOf, class F>
absl::Status SegmentSums(const Launch& at, int64_t rows, int64_t count, int64_t columns,
                         const RowOf& row_of, const F& f, void* workspace) {
  if (count == 0 || columns == 0) return absl::OkStatus();
  const SortKey* sorted = nullptr;
  EBB_RETURN_IF_ERROR(SortByRow(at, rows, count, row_of, workspace, &sorted));
  return SumsOfSorted(at, rows, count, columns, sorted, f, workspace);
}

}  // namespace ebb::device::cuda
