#include "graph/ops/window.h"

namespace ebb::graph::ops {

Window ReadWindow(AttrReader& attrs, size_t spatial) {
  Window window;
  window.strides = attrs.List("strides", spatial, 1, kMaxInt);
  window.pads = attrs.List("pads", 2 * spatial, 0, kMaxInt);
  window.dilations.assign(spatial, 1);
  return window;
}

absl::StatusOr<Shape> WindowPositions(absl::Span<const int64_t> input, const Window& window) {
  Shape output;
  const size_t spatial = input.size();
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t extent = (window.kernel[i] - 1) * window.dilations[i] + 1;
    const int64_t padded = input[i] + window.pads[i] + window.pads[spatial + i];
    if (padded < extent) {
      return Invalid("the window spans ", extent, " positions of spatial dimension ", i,
                     ", but the padded input has only ", padded);
    }
    output.push_back((padded - extent) / window.strides[i] + 1);
  }
  return output;
}

}  // namespace ebb::graph::ops
