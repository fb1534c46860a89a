// Slice and its gradient, rows of the movement family. Private to graph/ops.
#pragma once

#include "graph/ops/common.h"

namespace ebb::graph::ops {

absl::StatusOr<Types> SliceShape(const ShapeContext& context);
absl::StatusOr<Types> SliceGradShape(const ShapeContext& context);
absl::Status SliceGradient(GradContext& grad);

}  // namespace ebb::graph::ops
