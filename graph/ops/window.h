// Sliding windows: what convolutions and pools share. Private to graph/ops.
#pragma once

#include "graph/ops/common.h"

namespace ebb::graph::ops {

// All of length S, pads of length 2S (begin..., end...).
struct Window {
  Ints kernel, strides, pads, dilations;
};

// Reads `strides` and `pads`, of S spatial dimensions; the caller fills the rest.
Window ReadWindow(AttrReader& attrs, size_t spatial);

// Spatial dimensions of the output; an error when the window does not fit in the padded input.
absl::StatusOr<Shape> WindowPositions(absl::Span<const int64_t> input, const Window& window);

// The dimensions after batch and channels.
inline absl::Span<const int64_t> Spatial(const Shape& shape) {
  return absl::MakeConstSpan(shape).subspan(2);
}

}  // namespace ebb::graph::ops
