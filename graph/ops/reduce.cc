// Reductions over axes.
#include <algorithm>

#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

enum class Empty { kAllowed, kRefused };  // reductions over no elements

absl::StatusOr<Types> ReduceShapeOf(const ShapeContext& context, Empty empty) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x"));
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

template <Empty kEmpty>
absl::StatusOr<Types> ReduceShape(const ShapeContext& context) {
  return ReduceShapeOf(context, kEmpty);
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

}  // namespace

absl::Span<const OpDef> Reduce() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "ReduceSum",
       .shape = ReduceShape<Empty::kAllowed>,
       .gradient = ReduceGrad<Reduction::kSum>,
       .flops = PerInput<1>},
      {.name = "ReduceMean",
       .shape = ReduceShape<Empty::kRefused>,
       .gradient = ReduceGrad<Reduction::kMean>,
       .flops = PerInput<1>},
      {.name = "ReduceMax", .shape = ReduceShape<Empty::kRefused>, .flops = PerInput<1>},
      {.name = "ReduceMin", .shape = ReduceShape<Empty::kRefused>, .flops = PerInput<1>},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
