// What losses and metrics share: class labels and their attributes. Private to graph/ops.
#pragma once

#include <limits>

#include "graph/ops/common.h"

namespace ebb::graph::ops {

inline void IgnoreIndexAttr(AttrReader& attrs) {
  attrs.Int("ignore_index", std::numeric_limits<int64_t>::min(),
            std::numeric_limits<int64_t>::max(), -100);
}
inline void LabelSmoothingAttr(AttrReader& attrs) { attrs.Float("label_smoothing", 0, 1, 0); }

// Input `i` must be labels i32 or i64 for logits [N,C,S] of this shape; returns their shape [N,S].
inline absl::StatusOr<Shape> CheckLabels(const ShapeContext& context, size_t i,
                                         const Shape& logits) {
  if (logits.size() < 2 || logits[1] < 1) {
    return Invalid("scores are ", ToString(logits), ", they need the shape [N,C,...] with C >= 1");
  }
  EBB_ASSIGN_OR_RETURN(const TensorType* labels, Required(context, i, "labels", Kind::kIndex));
  Shape items = logits;
  items.erase(items.begin() + 1);
  if (labels->shape != items) {
    return Invalid("labels are ", ToString(*labels), ", need the shape ", ToString(items),
                   " for scores ", ToString(logits));
  }
  return items;
}

}  // namespace ebb::graph::ops
