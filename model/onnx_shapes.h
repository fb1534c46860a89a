// Shape rules of ONNX's movement ops and windows, shared by host evaluation and by the converters.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "graph/attrs.h"
#include "model/onnx_node.h"

namespace ebb::model {

using Ints = std::vector<int64_t>;

// An axis in [-rank, rank) as [0, rank).
absl::StatusOr<int64_t> NormalAxis(const NodeView& node, int64_t axis, int64_t rank);
// Sorted and without duplicates (a duplicate is InvalidArgument).
absl::StatusOr<Ints> NormalAxes(const NodeView& node, Ints axes, int64_t rank);

// The output shape of Reshape, Flatten, Squeeze or Unsqueeze.
absl::StatusOr<Shape> ReshapedShape(const NodeView& node);

// Transpose's permutation, checked.
absl::StatusOr<Ints> TransposePerm(const NodeView& node);

// Slice: one entry an axis named, as graph op `Slice` wants them (docs/ops.md), axes sorted.
struct SliceSpec {
  Ints starts, ends, axes, steps;
  Shape shape;  // of the result
};
absl::StatusOr<SliceSpec> ReadSlice(const NodeView& node);

// Split: the axis and the sizes of the parts, which sum to the axis.
struct SplitSpec {
  int64_t axis = 0;
  Ints sizes;
};
absl::StatusOr<SplitSpec> ReadSplit(const NodeView& node);

// Expand's and Tile's output shape and Tile's repeats.
absl::StatusOr<Shape> ExpandedShape(const NodeView& node);
absl::StatusOr<Ints> TileRepeats(const NodeView& node);

// The axes that a reduction removes; empty: none (the result is the input).
absl::StatusOr<Ints> ReducedAxes(const NodeView& node);

// Convolution and pooling: explicit pads, whatever auto_pad and ceil_mode say.
struct Window {
  Ints kernel, strides, dilations, pads;
  Ints counted_pads;  // pads without those that only ceil_mode asks for
};
absl::StatusOr<Window> ReadWindow(const NodeView& node, Ints kernel);

}  // namespace ebb::model
