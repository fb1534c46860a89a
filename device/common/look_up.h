// Look-ups of whole rows by index: what Gather, embedding bags and their gradients share.
#pragma once

#include <algorithm>

#include "device/common/operands.h"
#include "device/math/scalar.h"

namespace ebb::device {

// The row that an index means; below 0 they count from the end. -1 when there is none.
template <class I>
EBB_INLINE int64_t RowOf(I index, int64_t rows) {
  const int64_t row = index < 0 ? static_cast<int64_t>(index) + rows : static_cast<int64_t>(index);
  return row >= 0 && row < rows ? row : -1;
}

// `count` indices into one axis of a tensor of outer x length x inner elements.
struct AxisLookUp {
  int64_t outer = 1;
  int64_t length = 1;
  int64_t count = 0;
  int64_t inner = 1;  // elements a row
};

inline AxisLookUp AxisLookUpOf(const Shape& x, int64_t axis, int64_t count) {
  AxisLookUp form;
  form.count = count;
  form.length = x[static_cast<size_t>(axis)];
  for (int64_t d = 0; d < axis; ++d) form.outer *= x[static_cast<size_t>(d)];
  for (size_t d = static_cast<size_t>(axis) + 1; d < x.size(); ++d) form.inner *= x[d];
  return form;
}

// Sums or means of rows of a table, bag by bag.
struct Bags {
  int64_t rows = 0, width = 0, indices = 0, bags = 0;
  bool mean = false, last_offset = false;

  // The bag's indices [begin, end) and what its rows are scaled by. Offsets are data: whatever they
  // are, the range lies within the indices.
  struct Bag {
    int64_t begin, end;
    float scale;
    EBB_INLINE bool Has(int64_t index) const { return index >= begin && index < end; }
  };
  template <class I>
  EBB_INLINE Bag At(const I* offsets, int64_t bag) const {
    const int64_t begin = Clamped(offsets[bag]);
    const bool open = bag + 1 == bags && !last_offset;
    const int64_t next = open ? indices : Clamped(offsets[bag + 1]);
    const int64_t end = next < begin ? begin : next;
    return {begin, end, mean && end > begin ? 1.0f / static_cast<float>(end - begin) : 1.0f};
  }
  EBB_INLINE int64_t Clamped(int64_t at) const {
    return at < 0 ? 0 : (at > indices ? indices : at);
  }
};

}  // namespace ebb::device
