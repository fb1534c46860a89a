// Ops that move elements and compute nothing.
#include <algorithm>

#include "graph/ops/slice.h"

namespace ebb::graph::ops {
namespace {

// ---- Reshape, Transpose, and the physical orders.

absl::StatusOr<Types> ReshapeShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const Shape shape = attrs.Dims("shape");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  if (NumElements(x->shape) != NumElements(shape)) {
    return Invalid("x is ", ToString(*x), " of ", NumElements(x->shape), " elements, the shape ",
                   ToString(shape), " has ", NumElements(shape));
  }
  return Output(x->dtype, shape);
}

absl::Status ReshapeGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       Reshaped(grad, grad.dy(0), grad.type(grad.node().inputs[0]).shape));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

absl::StatusOr<Types> TransposeShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  const size_t rank = x->shape.size();
  AttrReader attrs(context.attrs);
  const Ints perm = attrs.List("perm", rank, 0, rank == 0 ? 0 : static_cast<int64_t>(rank) - 1);
  Ints sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  attrs.Check(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(),
              "perm names an axis twice");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  Shape shape;
  for (const int64_t axis : perm) shape.push_back(x->shape[static_cast<size_t>(axis)]);
  return Output(x->dtype, std::move(shape));
}

absl::Status TransposeGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Ints perm = grad.node().attrs.Ints("perm");
  Ints inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) {
    inverse[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  }
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit("Transpose", {grad.dy(0)}, {{"perm", std::move(inverse)}}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

absl::StatusOr<Types> OrderShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  EBB_RETURN_IF_ERROR(CheckRank("x", *x, 3, 5));
  return SameType<NoAttrs, Kind::kAny>(context);
}

template <bool kToChannelsLast>
absl::Status OrderGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit(kToChannelsLast ? "ToPlain" : "ToChannelsLast", {grad.dy(0)}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// ---- Concat, Pad.

absl::StatusOr<Types> ConcatShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* first, Required(context, 0, "input 0", Kind::kAny));
  AttrReader attrs(context.attrs);
  const size_t axis = attrs.Axis("axis", first->shape.size());
  EBB_RETURN_IF_ERROR(attrs.Finish());
  TensorType y = *first;
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(const TensorType* x,
                         Required(context, i, absl::StrCat("input ", i), Kind::kAny));
    TensorType want = *first;
    if (x->shape.size() == want.shape.size()) want.shape[axis] = x->shape[axis];
    if (*x != want) {
      return Invalid("input ", i, " is ", ToString(*x), ", needs to be as input 0, ",
                     ToString(*first), ", but on axis ", axis);
    }
    y.shape[axis] += x->shape[axis];
    EBB_RETURN_IF_ERROR(CheckShape("the output", y.shape));
  }
  return Outputs({y});
}

absl::Status ConcatGrad(GradContext& grad) {
  if (!grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  const int64_t axis = node.attrs.Int("axis", 0);
  int64_t start = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const int64_t end = start + grad.type(node.inputs[i]).shape[static_cast<size_t>(axis)];
    if (Wants(grad, i)) {
      EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("Slice", {grad.dy(0)},
                                                       {{"starts", Ints{start}},
                                                        {"ends", Ints{end}},
                                                        {"axes", Ints{axis}},
                                                        {"steps", Ints{1}}}));
      grad.SetGrad(i, dx);
    }
    start = end;
  }
  return absl::OkStatus();
}

absl::StatusOr<Types> PadShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  const size_t rank = x->shape.size();
  AttrReader attrs(context.attrs);
  const Ints pads = attrs.List("pads", 2 * rank, -kMaxElements, kMaxElements);
  attrs.Float("value", 0);
  attrs.Word("mode", {"constant"}, "constant");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  Shape shape = x->shape;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t before = pads[i], after = pads[rank + i];
    if (shape[i] + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) < 0) {
      return Invalid("the pads ", before, " and ", after, " cut more than axis ", i, " of ",
                     ToString(*x), " has");
    }
    shape[i] += before + after;
  }
  return Output(x->dtype, std::move(shape));
}

absl::Status PadGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  Ints pads = grad.node().attrs.Ints("pads");
  for (int64_t& pad : pads) pad = -pad;
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit("Pad", {grad.dy(0)}, {{"pads", std::move(pads)}}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// ---- Gather, GatherGrad.

absl::StatusOr<Shape> GatherOutput(const ShapeContext& context, const Shape& x, size_t axis) {
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, Required(context, 1, "indices", Kind::kIndex));
  Shape shape(x.begin(), x.begin() + static_cast<ptrdiff_t>(axis));
  shape.insert(shape.end(), indices->shape.begin(), indices->shape.end());
  shape.insert(shape.end(), x.begin() + static_cast<ptrdiff_t>(axis) + 1, x.end());
  EBB_RETURN_IF_ERROR(CheckShape("the output", shape));
  return shape;
}

absl::StatusOr<Types> GatherShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  AttrReader attrs(context.attrs);
  const size_t axis = attrs.Axis("axis", x->shape.size());
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const Shape y, GatherOutput(context, x->shape, axis));
  return Output(x->dtype, y);
}

absl::StatusOr<Types> GatherGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const Shape x = attrs.Dims("shape");
  const size_t axis = attrs.Axis("axis", x.size());
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* dy, Required(context, 0, "dy"));
  EBB_ASSIGN_OR_RETURN(const Shape y, GatherOutput(context, x, axis));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", {dy->dtype, y}));
  return Output(dy->dtype, x);
}

absl::Status GatherGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  Attrs attrs = node.attrs;
  attrs.Set("shape", ToInts(grad.type(node.inputs[0]).shape));
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit("GatherGrad", {grad.dy(0), node.inputs[1]}, std::move(attrs)));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// ---- Where(cond, a, b).

absl::StatusOr<Types> WhereShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(AttrReader(context.attrs).Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* cond, Required(context, 0, "cond", Kind::kAny));
  EBB_ASSIGN_OR_RETURN(const TensorType* a, Required(context, 1, "a", Kind::kAny));
  EBB_ASSIGN_OR_RETURN(const TensorType* b, Required(context, 2, "b", Kind::kAny));
  std::optional<Shape> shape = BroadcastShapes(a->shape, b->shape);
  if (shape) shape = BroadcastShapes(*shape, cond->shape);
  if (!shape || a->dtype != b->dtype || cond->dtype != DType::kBool) {
    return Invalid("cond is ", ToString(*cond), ", a is ", ToString(*a), " and b is ", ToString(*b),
                   ", they need bool, one type, and shapes that broadcast");
  }
  return Output(a->dtype, *shape);
}

absl::Status WhereGrad(GradContext& grad) {
  if (!grad.dy(0).valid() || (!Wants(grad, 1) && !Wants(grad, 2))) return absl::OkStatus();
  const ValueId cond = grad.node().inputs[0], dy = grad.dy(0);
  // Zeros from the condition, not from dy: 0 times an infinity would not be zero.
  const std::string dtype(Name(grad.type(dy).dtype));
  EBB_ASSIGN_OR_RETURN(ValueId zeros, grad.Emit("Cast", {cond}, {{"to", dtype}}));
  EBB_ASSIGN_OR_RETURN(zeros, grad.Emit("Scale", {zeros}, {{"scale", 0.0}}));
  if (Wants(grad, 1)) {
    EBB_ASSIGN_OR_RETURN(const ValueId da, grad.Emit("Where", {cond, dy, zeros}));
    EBB_RETURN_IF_ERROR(SetGradSummed(grad, 1, da));
  }
  if (!Wants(grad, 2)) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const ValueId db, grad.Emit("Where", {cond, zeros, dy}));
  return SetGradSummed(grad, 2, db);
}

// Fetch(state): a copy in the step's stack of a resident value that lives on the host.
absl::StatusOr<Types> FetchShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(AttrReader(context.attrs).Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* state, Required(context, 0, "state", Kind::kAny));
  return Output(state->dtype, state->shape);
}

// Store(state, copy): writes a fetched copy back.
absl::StatusOr<Types> StoreShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(AttrReader(context.attrs).Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* state, Required(context, 0, "state", Kind::kAny));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "copy", *state));
  return Types();
}

}  // namespace

absl::Span<const OpDef> Movement() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "Reshape", .shape = ReshapeShape, .gradient = ReshapeGrad, .is_view = true},
      {.name = "Transpose", .shape = TransposeShape, .gradient = TransposeGrad},
      {.name = "Concat", .max_inputs = -1, .shape = ConcatShape, .gradient = ConcatGrad},
      {.name = "Slice", .shape = SliceShape, .gradient = SliceGradient},
      {.name = "SliceGrad", .shape = SliceGradShape},
      {.name = "Pad", .shape = PadShape, .gradient = PadGrad},
      {.name = "Gather",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = GatherShape,
       .gradient = GatherGrad},
      {.name = "GatherGrad",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = GatherGradShape,
       .flops = PerInput<1>},
      {.name = "Where",
       .min_inputs = 3,
       .max_inputs = 3,
       .shape = WhereShape,
       .gradient = WhereGrad},
      {.name = "ToChannelsLast", .shape = OrderShape, .gradient = OrderGrad<true>},
      {.name = "ToPlain", .shape = OrderShape, .gradient = OrderGrad<false>},
      {.name = "Fetch", .shape = FetchShape},
      {.name = "Store", .min_inputs = 2, .max_inputs = 2, .shape = StoreShape, .mutates = {0}},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
