// Convolution and its two gradients.
#include "graph/ops/window.h"

namespace ebb::graph::ops {
namespace {

struct ConvAttrs {
  Window window;  // its kernel comes from the weight
  int64_t groups = 1;
};

ConvAttrs ReadConv(AttrReader& attrs, size_t spatial) {
  ConvAttrs conv{ReadWindow(attrs, spatial), attrs.Int("groups", 1, kMaxInt, 1)};
  conv.window.dilations = attrs.List("dilations", spatial, 1, kMaxInt);
  attrs.Flag("tf32");
  return conv;
}

// 1 to 3 spatial dimensions.
absl::Status CheckConvRank(absl::string_view name, const TensorType& type) {
  return CheckRank(name, type, 3, 5);
}

// The shape of y from those of x and w.
absl::StatusOr<Shape> ConvOutput(const Shape& x, const Shape& w, ConvAttrs conv) {
  const auto text = [&] { return absl::StrCat("x ", ToString(x), " and w ", ToString(w)); };
  if (x.size() != w.size()) return Invalid(text(), " need one rank");
  for (size_t i = 0; i < w.size(); ++i) {
    if (w[i] < 1) return Invalid("w ", ToString(w), " has no elements");
    if (i > 1 && w[i] > kMaxInt) return Invalid("w ", ToString(w), " has too large a kernel");
  }
  if (x[1] < 1 || x[1] % conv.groups != 0 || w[0] % conv.groups != 0) {
    return Invalid("groups=", conv.groups, " must divide the channels of ", text(), ": ", x[1],
                   " in and ", w[0], " out");
  }
  if (w[1] != x[1] / conv.groups) {
    return Invalid(text(), " with groups=", conv.groups, " do not fit: w needs ",
                   x[1] / conv.groups, " channels on axis 1");
  }
  conv.window.kernel.assign(w.begin() + 2, w.end());
  EBB_ASSIGN_OR_RETURN(const Shape spatial, WindowPositions(Spatial(x), conv.window));
  Shape y = {x[0], w[0]};
  y.insert(y.end(), spatial.begin(), spatial.end());
  return y;
}

absl::StatusOr<Types> ConvShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x"));
  EBB_RETURN_IF_ERROR(CheckConvRank("x", *x));
  AttrReader attrs(context.attrs);
  const ConvAttrs conv = ReadConv(attrs, x->shape.size() - 2);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* w, Required(context, 1, "w"));
  if (w->dtype != x->dtype) {
    return Invalid("w is ", ToString(*w), ", needs x's type ", Name(x->dtype));
  }
  EBB_ASSIGN_OR_RETURN(const Shape y, ConvOutput(x->shape, w->shape, conv));
  EBB_ASSIGN_OR_RETURN(const TensorType* b, Optional(context, 2, "b"));
  if (b != nullptr) EBB_RETURN_IF_ERROR(Exactly(context, 2, "b", {x->dtype, {w->shape[0]}}));
  return Output(x->dtype, y);
}

// Both gradients: dy must be what Conv makes of x and w; the one not given as input is `made`.
absl::StatusOr<Types> ConvGradShape(const TensorType& dy, const Shape& x, const Shape& w,
                                    const ConvAttrs& conv, const Shape& made) {
  EBB_ASSIGN_OR_RETURN(const Shape y, ConvOutput(x, w, conv));
  if (y != dy.shape) {
    return Invalid("dy is ", ToString(dy), ", needs ", ToString(TensorType{dy.dtype, y}));
  }
  return Output(dy.dtype, made);
}

struct GradInputs {
  const TensorType* dy;
  const TensorType* other;  // of dy's type and rank
  ConvAttrs conv;
  Shape made;
};
absl::StatusOr<GradInputs> ReadGrad(const ShapeContext& context, absl::string_view other,
                                    absl::string_view made) {
  GradInputs grad;
  EBB_ASSIGN_OR_RETURN(grad.dy, Required(context, 0, "dy"));
  EBB_RETURN_IF_ERROR(CheckConvRank("dy", *grad.dy));
  EBB_ASSIGN_OR_RETURN(grad.other, Required(context, 1, other));
  AttrReader attrs(context.attrs);
  grad.conv = ReadConv(attrs, grad.dy->shape.size() - 2);
  grad.made = attrs.Dims(made);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  const size_t rank = grad.dy->shape.size();
  if (grad.other->dtype != grad.dy->dtype || grad.other->shape.size() != rank ||
      grad.made.size() != rank) {
    return Invalid("dy is ", ToString(*grad.dy), ", ", other, " is ", ToString(*grad.other),
                   " and ", made, " is ", ToString(grad.made), ", they need one type and rank");
  }
  return grad;
}

absl::StatusOr<Types> ConvGradInputShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const GradInputs grad, ReadGrad(context, "w", "input_shape"));
  return ConvGradShape(*grad.dy, grad.made, grad.other->shape, grad.conv, grad.made);
}

absl::StatusOr<Types> ConvGradWeightShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const GradInputs grad, ReadGrad(context, "x", "weight_shape"));
  return ConvGradShape(*grad.dy, grad.other->shape, grad.made, grad.conv, grad.made);
}

absl::Status ConvGrad(GradContext& grad) {
  const ValueId dy = grad.dy(0);
  if (!dy.valid()) return absl::OkStatus();
  const Node node = grad.node();
  if (Wants(grad, 0)) {
    Attrs attrs = node.attrs;
    attrs.Set("input_shape", ToInts(grad.type(node.inputs[0]).shape));
    EBB_ASSIGN_OR_RETURN(const ValueId dx,
                         grad.Emit("ConvGradInput", {dy, node.inputs[1]}, std::move(attrs)));
    grad.SetGrad(0, dx);
  }
  if (Wants(grad, 1)) {
    Attrs attrs = node.attrs;
    attrs.Set("weight_shape", ToInts(grad.type(node.inputs[1]).shape));
    EBB_ASSIGN_OR_RETURN(const ValueId dw,
                         grad.Emit("ConvGradWeight", {dy, node.inputs[0]}, std::move(attrs)));
    grad.SetGrad(1, dw);
  }
  if (!Wants(grad, 2)) return absl::OkStatus();
  Ints axes = {0};
  for (size_t i = 2; i < grad.type(dy).shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  EBB_ASSIGN_OR_RETURN(
      const ValueId db,
      grad.Emit("ReduceSum", {dy}, {{"axes", std::move(axes)}, {"keepdims", int64_t{0}}}));
  grad.SetGrad(2, db);
  return absl::OkStatus();
}

// Forward it is a transposed convolution: y = ConvGradInput(x, w).
absl::Status ConvGradInputGrad(GradContext& grad) {
  const ValueId dy = grad.dy(0);
  if (!dy.valid()) return absl::OkStatus();
  const Node node = grad.node();
  Attrs attrs = node.attrs;
  attrs.Erase("input_shape");
  if (Wants(grad, 0)) {
    EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("Conv", {dy, node.inputs[1]}, attrs));
    grad.SetGrad(0, dx);
  }
  if (!Wants(grad, 1)) return absl::OkStatus();
  attrs.Set("weight_shape", ToInts(grad.type(node.inputs[1]).shape));
  EBB_ASSIGN_OR_RETURN(const ValueId dw,
                       grad.Emit("ConvGradWeight", {node.inputs[0], dy}, std::move(attrs)));
  grad.SetGrad(1, dw);
  return absl::OkStatus();
}

// Every element of y (or dy) meets the C/g * K weights of its channel.
Flops ConvFlops(int64_t y_elements, absl::Span<const int64_t> weight) {
  return Product({2, y_elements, NumElements(Shape(weight.begin() + 1, weight.end()))});
}
Flops ForwardFlops(const Graph& graph, const Node& node) {
  return ConvFlops(OutputElements(graph, node, 0), graph.value(node.inputs[1]).type.shape);
}
Flops GradInputFlops(const Graph& graph, const Node& node) {
  return ConvFlops(InputElements(graph, node, 0), graph.value(node.inputs[1]).type.shape);
}
Flops GradWeightFlops(const Graph& graph, const Node& node) {
  return ConvFlops(InputElements(graph, node, 0), graph.value(node.outputs[0]).type.shape);
}

}  // namespace

absl::Span<const OpDef> Conv() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "Conv",
       .min_inputs = 2,
       .max_inputs = 3,
       .shape = ConvShape,
       .gradient = ConvGrad,
       .flops = ForwardFlops},
      {.name = "ConvGradInput",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = ConvGradInputShape,
       .gradient = ConvGradInputGrad,
       .flops = GradInputFlops},
      {.name = "ConvGradWeight",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = ConvGradWeightShape,
       .flops = GradWeightFlops},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
