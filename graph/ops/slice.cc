#include "graph/ops/slice.h"

namespace ebb::graph::ops {
namespace {

struct Range {
  int64_t start, end, step;
};

// How many elements the range takes from an axis of `dim`; both ends must lie on the axis.
absl::StatusOr<int64_t> Count(const Range& range, int64_t dim, int64_t axis) {
  const bool forward = range.step > 0;
  const bool fits =
      forward ? range.start >= 0 && range.start <= dim && range.end >= 0 && range.end <= dim
              : range.start >= 0 && range.start < dim && range.end >= -1 && range.end < dim;
  if (!fits) {
    return Invalid("start ", range.start, ", end ", range.end, ", step ", range.step,
                   " leave axis ", axis, " of ", dim, " elements");
  }
  const int64_t span = forward ? range.end - range.start : range.start - range.end;
  const int64_t step = forward ? range.step : -range.step;
  return span <= 0 ? 0 : (span + step - 1) / step;
}

// The shape of the slice of `x`.
absl::StatusOr<Shape> Sliced(AttrReader& attrs, const Shape& x) {
  const Ints axes = attrs.Axes("axes", x.size());
  const size_t n = axes.size();
  const Ints starts = attrs.List("starts", n, 0, kMaxElements);
  const Ints ends = attrs.List("ends", n, -1, kMaxElements);
  const Ints steps = attrs.List("steps", n, -kMaxElements, kMaxElements);
  for (const int64_t step : steps) attrs.Check(step != 0, "a step must not be 0");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  Shape shape = x;
  for (size_t i = 0; i < n; ++i) {
    int64_t& dim = shape[static_cast<size_t>(axes[i])];
    EBB_ASSIGN_OR_RETURN(dim, Count({starts[i], ends[i], steps[i]}, dim, axes[i]));
  }
  return shape;
}

}  // namespace

absl::StatusOr<Types> SliceShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  AttrReader attrs(context.attrs);
  EBB_ASSIGN_OR_RETURN(const Shape shape, Sliced(attrs, x->shape));
  return Output(x->dtype, shape);
}

absl::StatusOr<Types> SliceGradShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* dy, Required(context, 0, "dy"));
  AttrReader attrs(context.attrs);
  const Shape x = attrs.Dims("shape");
  EBB_ASSIGN_OR_RETURN(const Shape shape, Sliced(attrs, x));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", {dy->dtype, shape}));
  return Output(dy->dtype, x);
}

absl::Status SliceGradient(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  Attrs attrs = node.attrs;
  attrs.Set("shape", ToInts(grad.type(node.inputs[0]).shape));
  EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("SliceGrad", {grad.dy(0)}, std::move(attrs)));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

}  // namespace ebb::graph::ops
