// Rows along one axis of a plain shape.
#pragma once

#include "device/common/operands.h"
#include "device/math/divisor.h"

namespace ebb::device {

// Element i of the row (o, c) is at (o * length + i) * inner + c.
struct AxisForm {
  int64_t outer = 1;
  int64_t length = 1;
  Divisor inner = 1;

  EBB_INLINE int64_t rows() const { return outer * inner; }
  // Rows counted in memory order of their first elements.
  EBB_INLINE int64_t At(int64_t row, int64_t i) const {
    if (inner == 1) return row * length + i;
    const int64_t o = row / inner;
    return (o * length + i) * inner + (row - o * inner);
  }
};

inline AxisForm AxisFormOf(const Shape& shape, int64_t axis) {
  AxisForm form;
  form.length = shape[static_cast<size_t>(axis)];
  for (int64_t d = 0; d < axis; ++d) form.outer *= shape[static_cast<size_t>(d)];
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(axis) + 1; d < shape.size(); ++d) inner *= shape[d];
  form.inner = inner;
  return form;
}

}  // namespace ebb::device
