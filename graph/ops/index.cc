// Elements and slices by index, and ops along one axis that find or count positions.
#include <algorithm>

#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

// ---- GatherElements(x, indices), ScatterElements(x, indices, updates): one index an element.

// Indices of x's rank that stay within x on all axes but `axis`.
absl::StatusOr<const TensorType*> ElementIndices(const ShapeContext& context, const Shape& x,
                                                 size_t axis) {
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, Required(context, 1, "indices", Kind::kIndex));
  bool fits = indices->shape.size() == x.size();
  for (size_t d = 0; fits && d < x.size(); ++d) fits = d == axis || indices->shape[d] <= x[d];
  if (!fits) {
    return Invalid("indices is ", ToString(*indices), ", needs the rank of ", ToString(x),
                   " and no more than it on each axis but ", axis);
  }
  return indices;
}

absl::StatusOr<Types> GatherElementsShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  AttrReader attrs(context.attrs);
  const size_t axis = attrs.Axis("axis", x->shape.size());
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, ElementIndices(context, x->shape, axis));
  return Output(x->dtype, indices->shape);
}

absl::StatusOr<Types> GatherElementsGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const Shape x = attrs.Dims("shape");
  const size_t axis = attrs.Axis("axis", x.size());
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* dy, Required(context, 0, "dy"));
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, ElementIndices(context, x, axis));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", {dy->dtype, indices->shape}));
  return Output(dy->dtype, x);
}

// "none" replaces, so it takes any type; the others compute.
absl::StatusOr<const TensorType*> ScatterData(const ShapeContext& context, AttrReader& attrs) {
  const std::string reduction =
      attrs.Word("reduction", {"none", "add", "mul", "max", "min"}, "none");
  return Required(context, 0, "x", reduction == "none" ? Kind::kAny : Kind::kNumber);
}

absl::StatusOr<Types> ScatterElementsShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EBB_ASSIGN_OR_RETURN(const TensorType* x, ScatterData(context, attrs));
  const size_t axis = attrs.Axis("axis", x->shape.size());
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, ElementIndices(context, x->shape, axis));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "updates", {x->dtype, indices->shape}));
  return Output(x->dtype, x->shape);
}

// ---- GatherND(x, indices), ScatterND(x, indices, updates): the last axis of `indices` names axes
// of x from `batch_dims` on; what is left of x is a slice.

absl::StatusOr<Shape> SlicesOf(const ShapeContext& context, const Shape& x, int64_t batch_dims) {
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, Required(context, 1, "indices", Kind::kIndex));
  const auto batch = static_cast<size_t>(batch_dims);
  const Shape& at = indices->shape;
  bool fits = at.size() > batch && x.size() > batch;
  const int64_t depth = fits ? at.back() : 0;
  fits = fits && depth >= 1 && depth <= static_cast<int64_t>(x.size() - batch) &&
         std::equal(x.begin(), x.begin() + batch_dims, at.begin());
  if (!fits) {
    return Invalid("indices is ", ToString(*indices), ", its last axis needs 1 to ",
                   static_cast<int64_t>(x.size()) - batch_dims, " numbers and its first ",
                   batch_dims, " axes to be those of ", ToString(x));
  }
  Shape shape(at.begin(), at.end() - 1);
  shape.insert(shape.end(), x.begin() + batch_dims + depth, x.end());
  EBB_RETURN_IF_ERROR(CheckShape("the output", shape));
  return shape;
}

int64_t BatchDims(AttrReader& attrs) {
  return attrs.Int("batch_dims", 0, static_cast<int64_t>(kMaxRank) - 1, 0);
}

absl::StatusOr<Types> GatherNdShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  AttrReader attrs(context.attrs);
  const int64_t batch_dims = BatchDims(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const Shape y, SlicesOf(context, x->shape, batch_dims));
  return Output(x->dtype, y);
}

absl::StatusOr<Types> GatherNdGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const Shape x = attrs.Dims("shape");
  const int64_t batch_dims = BatchDims(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* dy, Required(context, 0, "dy"));
  EBB_ASSIGN_OR_RETURN(const Shape y, SlicesOf(context, x, batch_dims));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", {dy->dtype, y}));
  return Output(dy->dtype, x);
}

absl::StatusOr<Types> ScatterNdShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EBB_ASSIGN_OR_RETURN(const TensorType* x, ScatterData(context, attrs));
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const Shape slices, SlicesOf(context, x->shape, 0));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "updates", {x->dtype, slices}));
  return Output(x->dtype, x->shape);
}

// ---- Gradients of both kinds.

// <Op>Grad(dy, indices) {attributes, shape of x} for input 0.
absl::Status EmitGatherGrad(GradContext& grad, absl::string_view op, ValueId indices, Attrs attrs) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  attrs.Set("shape", ToInts(grad.type(grad.node().inputs[0]).shape));
  EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit(op, {grad.dy(0), indices}, std::move(attrs)));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

absl::Status GatherElementsGradient(GradContext& grad) {
  const Node node = grad.node();
  return EmitGatherGrad(grad, "GatherElementsGrad", node.inputs[1], node.attrs);
}
absl::Status GatherNdGradient(GradContext& grad) {
  const Node node = grad.node();
  return EmitGatherGrad(grad, "GatherNDGrad", node.inputs[1], node.attrs);
}

// x keeps dy where nothing was put over it; updates get dy at their places. Where several updates
// replace one element each of them gets its dy, as in PyTorch.
template <bool kElements>
absl::Status ScatterGradient(GradContext& grad) {
  if (!grad.dy(0).valid() || (!Wants(grad, 0) && !Wants(grad, 2))) return absl::OkStatus();
  const Node node = grad.node();
  const std::string reduction = node.attrs.Str("reduction", "none");
  if (reduction != "none" && reduction != "add") {
    return absl::UnimplementedError(
        absl::StrCat(node.op->name, " with reduction \"", reduction, "\" has no gradient"));
  }
  Attrs attrs = node.attrs;
  attrs.Erase("reduction");
  EBB_ASSIGN_OR_RETURN(
      const ValueId at_indices,
      grad.Emit(kElements ? "GatherElements" : "GatherND", {grad.dy(0), node.inputs[1]}, attrs));
  if (Wants(grad, 2)) grad.SetGrad(2, at_indices);
  if (!Wants(grad, 0)) return absl::OkStatus();
  if (reduction == "add") {
    grad.SetGrad(0, grad.dy(0));
    return absl::OkStatus();
  }
  // Zeros from the integers' side: 0 times an infinity would not be zero.
  EBB_ASSIGN_OR_RETURN(const ValueId same, grad.Emit("Less", {at_indices, at_indices}));
  EBB_ASSIGN_OR_RETURN(
      const ValueId zeros,
      grad.Emit("Cast", {same}, {{"to", std::string(Name(grad.type(at_indices).dtype))}}));
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit(node.op->name, {grad.dy(0), node.inputs[1], zeros}, attrs));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// ---- Along one axis.

absl::StatusOr<Types> CumSumShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kNumber));
  AttrReader attrs(context.attrs);
  attrs.Axis("axis", x->shape.size());
  attrs.Flag("exclusive");
  attrs.Flag("reverse");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  return Output(x->dtype, x->shape);
}

// The same from the other end.
absl::Status CumSumGradient(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  Attrs attrs = grad.node().attrs;
  attrs.Set("reverse", int64_t{attrs.Int("reverse", 0) == 0});
  EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("CumSum", {grad.dy(0)}, std::move(attrs)));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// x -> values, indices (i64)
absl::StatusOr<Types> TopKShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kNumber));
  AttrReader attrs(context.attrs);
  const size_t axis = attrs.Axis("axis", x->shape.size());
  const int64_t k = attrs.Int("k", 1, kMaxInt);
  attrs.Flag("largest", true);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  if (k > x->shape[axis]) {
    return Invalid("k is ", k, ", axis ", axis, " of ", ToString(*x), " has no more than ",
                   x->shape[axis]);
  }
  Shape shape = x->shape;
  shape[axis] = k;
  return Outputs({{x->dtype, shape}, {DType::kI64, shape}});
}

absl::Status TopKGradient(GradContext& grad) {
  const Node node = grad.node();
  return EmitGatherGrad(grad, "GatherElementsGrad", node.outputs[1],
                        {{"axis", node.attrs.Int("axis", 0)}});
}

absl::StatusOr<Types> ArgShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kNumber));
  AttrReader attrs(context.attrs);
  const size_t axis = attrs.Axis("axis", x->shape.size());
  const bool keepdims = attrs.Flag("keepdims", true);
  attrs.Flag("last");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  if (x->shape[axis] == 0) {
    return Invalid("axis ", axis, " of ", ToString(*x), " has no elements to choose from");
  }
  Shape shape = x->shape;
  if (keepdims) {
    shape[axis] = 1;
  } else {
    shape.erase(shape.begin() + static_cast<ptrdiff_t>(axis));
  }
  return Output(DType::kI64, shape);
}

OpDef Row(absl::string_view name, int inputs, absl::StatusOr<Types> (*shape)(const ShapeContext&),
          absl::Status (*gradient)(GradContext&) = nullptr) {
  return {.name = name,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .shape = shape,
          .gradient = gradient};
}
OpDef Counted(OpDef op) {
  op.flops = PerInput<1>;
  return op;
}
OpDef InPlace(OpDef op) {
  op.in_place = 0;
  return op;
}

}  // namespace

absl::Span<const OpDef> Index() {
  static const auto* const rows = new std::vector<OpDef>{
      Row("GatherElements", 2, GatherElementsShape, GatherElementsGradient),
      Counted(Row("GatherElementsGrad", 2, GatherElementsGradShape)),
      InPlace(Row("ScatterElements", 3, ScatterElementsShape, ScatterGradient<true>)),
      Row("GatherND", 2, GatherNdShape, GatherNdGradient),
      Counted(Row("GatherNDGrad", 2, GatherNdGradShape)),
      InPlace(Row("ScatterND", 3, ScatterNdShape, ScatterGradient<false>)),
      Counted(Row("CumSum", 1, CumSumShape, CumSumGradient)),
      Counted(Row("TopK", 1, TopKShape, TopKGradient)),
      Counted(Row("ArgMax", 1, ArgShape)),
      Counted(Row("ArgMin", 1, ArgShape)),
  };
  return *rows;
}

}  // namespace ebb::graph::ops
