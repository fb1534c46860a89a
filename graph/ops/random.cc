// Ops that draw random numbers.
#include <limits>

#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

void RatioAttr(AttrReader& attrs) {
  const double ratio = attrs.Float("ratio", 0, 1);
  attrs.Check(ratio < 1, "ratio must be less than 1: nothing would be kept");
}

// Dropout(x, rng) -> y, mask
absl::StatusOr<Types> DropoutShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  RatioAttr(attrs);
  attrs.Int("stream", 0, std::numeric_limits<uint32_t>::max());  // a word of the counter
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x"));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "rng", {DType::kI64, {2}}));
  return Outputs({*x, {DType::kU8, x->shape}});
}

// DropoutGrad(dy, mask) -> dx
absl::StatusOr<Types> DropoutGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  RatioAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* dy, Required(context, 0, "dy"));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "mask", {DType::kU8, dy->shape}));
  return Outputs({*dy});
}

absl::Status DropoutGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("DropoutGrad", {grad.dy(0), node.outputs[1]},
                                                   {{"ratio", node.attrs.Float("ratio", 0)}}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OpDef> Random() {
  static const auto* const rows = new std::vector<OpDef>{
      // The mask depends on an element's logical index, so Dropout is not `elementwise`.
      {.name = "Dropout",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = DropoutShape,
       .gradient = DropoutGrad,
       .flops = PerOutput<8>},
      {.name = "DropoutGrad",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = DropoutGradShape,
       .flops = PerOutput<1>,
       .in_place = 0,
       .elementwise = true},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
