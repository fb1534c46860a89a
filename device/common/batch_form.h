// What batch normalisation normalises: every channel of [N,C,S], plain or channels last.
#pragma once

#include "device/common/operands.h"
#include "device/math/divisor.h"

namespace ebb::device {

// x as `outer` planes of [channels][inner]; channels last: inner = 1 and outer = N S.
struct BatchForm {
  int64_t outer = 0;
  Divisor channels = 0;
  Divisor inner = 1;

  EBB_INLINE int64_t count() const { return outer * inner; }  // elements a channel
  // Element i of channel c.
  EBB_INLINE int64_t At(int64_t c, int64_t i) const {
    if (inner == 1) return i * channels + c;
    const int64_t o = i / inner;
    return (o * channels + c) * inner + (i - o * inner);
  }
};

inline BatchForm BatchFormOf(const Value& x) {
  const Shape& shape = x.type.shape;
  int64_t inner = 1;
  for (size_t d = 2; d < shape.size(); ++d) inner *= shape[d];
  if (x.layout == Layout::kChannelsLast) return {shape[0] * inner, shape[1], 1};
  return {shape[0], shape[1], inner};
}

}  // namespace ebb::device
