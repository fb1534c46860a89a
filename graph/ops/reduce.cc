// Reductions over axes.
#include <algorithm>

#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

enum class Empty { kAllowed, kRefused };  // reductions over no elements

absl::StatusOr<Types> ReduceShapeOf(const ShapeContext& context, Empty empty, Kind kind) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", kind));
  AttrReader attrs(context.attrs);
  const Ints axes = attrs.Axes("axes", x->shape.size());
  const bool keepdims = attrs.Flag("keepdims", true);
  attrs.Check(!axes.empty(), "axes must name at least one axis");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  Shape shape;
  for (size_t i = 0; i < x->shape.size(); ++i) {
    const bool reduced = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (reduced && x->shape[i] == 0 && empty == Empty::kRefused) {
      return Invalid("axis ", i, " of ", ToString(*x), " has no elements to reduce");
    }
    if (!reduced) shape.push_back(x->shape[i]);
    if (reduced && keepdims) shape.push_back(1);
  }
  return Output(x->dtype, std::move(shape));
}

template <Empty kEmpty, Kind kKind = Kind::kNumber>
absl::StatusOr<Types> ReduceShape(const ShapeContext& context) {
  return ReduceShapeOf(context, kEmpty, kKind);
}

// (dy of the reduced shape with keepdims, x) -> dx
absl::StatusOr<Types> ReduceProdGradShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 1, "x"));
  AttrReader attrs(context.attrs);
  const Ints axes = attrs.Axes("axes", x->shape.size());
  attrs.Check(!axes.empty(), "axes must name at least one axis");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  TensorType kept = *x;
  for (const int64_t axis : axes) kept.shape[static_cast<size_t>(axis)] = 1;
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", kept));
  return Output(x->dtype, x->shape);
}

enum class Reduction { kSum, kMean };

template <Reduction kReduction>
absl::Status ReduceGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  const Shape shape = grad.type(node.inputs[0]).shape;
  Shape kept = shape;
  int64_t count = 1;
  for (const int64_t axis : node.attrs.Ints("axes")) {
    count *= shape[static_cast<size_t>(axis)];
    kept[static_cast<size_t>(axis)] = 1;
  }
  EBB_ASSIGN_OR_RETURN(ValueId dx, Reshaped(grad, grad.dy(0), kept));
  if (kReduction == Reduction::kMean) {  // before it is expanded: fewer elements
    EBB_ASSIGN_OR_RETURN(dx,
                         grad.Emit("Scale", {dx}, {{"scale", 1.0 / static_cast<double>(count)}}));
  }
  if (kept != shape) {
    EBB_ASSIGN_OR_RETURN(dx, grad.Emit("Expand", {dx}, {{"shape", ToInts(shape)}}));
  }
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// x's shape with ones at the reduced axes.
Shape KeptShape(const GradContext& grad) {
  Shape kept = grad.type(grad.node().inputs[0]).shape;
  for (const int64_t axis : grad.node().attrs.Ints("axes")) kept[static_cast<size_t>(axis)] = 1;
  return kept;
}

// Equal shares for all elements that are the extreme, as PyTorch's amax and amin.
absl::Status ExtremeGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  const Shape kept = KeptShape(grad);
  const std::string dtype(Name(grad.type(node.inputs[0]).dtype));
  EBB_ASSIGN_OR_RETURN(const ValueId y, Reshaped(grad, node.outputs[0], kept));
  EBB_ASSIGN_OR_RETURN(const ValueId equal, grad.Emit("Equal", {node.inputs[0], y}));
  EBB_ASSIGN_OR_RETURN(const ValueId mask, grad.Emit("Cast", {equal}, {{"to", dtype}}));
  EBB_ASSIGN_OR_RETURN(const ValueId count,
                       grad.Emit("ReduceSum", {mask},
                                 {{"axes", node.attrs.Ints("axes")}, {"keepdims", int64_t{1}}}));
  EBB_ASSIGN_OR_RETURN(ValueId share, Reshaped(grad, grad.dy(0), kept));
  EBB_ASSIGN_OR_RETURN(share, grad.Emit("Div", {share, count}));
  EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("Mul", {mask, share}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

absl::Status ProdGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(const ValueId dy, Reshaped(grad, grad.dy(0), KeptShape(grad)));
  EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("ReduceProdGrad", {dy, node.inputs[0]},
                                                   {{"axes", node.attrs.Ints("axes")}}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

OpDef Row(absl::string_view name, absl::StatusOr<Types> (*shape)(const ShapeContext&),
          absl::Status (*gradient)(GradContext&)) {
  return {.name = name, .shape = shape, .gradient = gradient, .flops = PerInput<1>};
}

}  // namespace

absl::Span<const OpDef> Reduce() {
  static const auto* const rows = new std::vector<OpDef>{
      Row("ReduceSum", ReduceShape<Empty::kAllowed>, ReduceGrad<Reduction::kSum>),
      Row("ReduceMean", ReduceShape<Empty::kRefused, Kind::kFloat>, ReduceGrad<Reduction::kMean>),
      Row("ReduceMax", ReduceShape<Empty::kRefused>, ExtremeGrad),
      Row("ReduceMin", ReduceShape<Empty::kRefused>, ExtremeGrad),
      Row("ReduceProd", ReduceShape<Empty::kRefused>, ProdGrad),
      {.name = "ReduceProdGrad",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = ReduceProdGradShape,
       .flops = PerOutput<3>},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
