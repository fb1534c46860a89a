// Ops along one axis that find or count positions.
#pragma once

#include "device/common/operands.h"
#include "device/math/scalar.h"

namespace ebb::device {

// Element (o, a, i) is at (o size + a) inner + i.
struct Axis {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

// Of the attribute "axis".
inline Axis AxisOf(const Node& node, const Shape& x) {
  const auto axis = static_cast<size_t>(node.attrs.Int("axis", 0));
  Axis form;
  form.size = x[axis];
  for (size_t d = 0; d < axis; ++d) form.outer *= x[d];
  for (size_t d = axis + 1; d < x.size(); ++d) form.inner *= x[d];
  return form;
}

// Does a come before b? Not a number is above all numbers.
template <class T>
EBB_INLINE bool Before(T a, T b, bool largest) {
  if (a != a || b != b) return largest ? a != a && b == b : b != b && a == a;
  return largest ? a > b : a < b;
}

// Is a further to the extreme that ArgMax or ArgMin look for? Not a number wins either way.
template <bool kMax, class T>
EBB_INLINE bool Wins(T a, T b) {
  return a != a ? b == b : b == b && Before(a, b, kMax);
}

}  // namespace ebb::device
