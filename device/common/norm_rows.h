// What layer, RMS and group normalisation normalise.
#pragma once

#include "device/common/operands.h"
#include "device/math/divisor.h"

namespace ebb::device {

// Contiguous elements that are normalised together.
struct NormRows {
  int64_t rows = 0;
  int64_t size = 1;
};

// Of the axes from `axis` on.
inline NormRows NormRowsOf(const Shape& x, int64_t axis) {
  NormRows rows;
  for (size_t d = static_cast<size_t>(axis); d < x.size(); ++d) rows.size *= x[d];
  rows.rows = NumElements(x) / rows.size;
  return rows;
}

// A sample's group is one row, with a scale and a bias a channel.
struct GroupForm {
  int64_t samples = 0;
  Divisor groups = 1;
  Divisor channels = 1;   // a group
  Divisor positions = 1;  // a channel

  EBB_INLINE int64_t size() const { return channels * positions; }
  EBB_INLINE int64_t all_channels() const { return groups * channels; }
};

inline GroupForm GroupFormOf(const Node& node, const Shape& x) {
  const int64_t groups = node.attrs.Int("groups", 1);
  return {x[0], groups, x[1] / groups, NumElements(Shape(x.begin() + 2, x.end()))};
}

}  // namespace ebb::device
