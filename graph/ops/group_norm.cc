// Group normalisation: every sample's channels in groups, each by its own mean and deviation. With
// as many groups as channels it is instance normalisation.
#include <algorithm>

#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

struct GroupInput {
  TensorType x;
  TensorType channel;  // [C]
  TensorType stats;    // [N,G]
};

absl::StatusOr<GroupInput> ReadGroups(const ShapeContext& context, size_t i, AttrReader& attrs) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, i, "x"));
  EBB_RETURN_IF_ERROR(CheckRank("x", *x, 2));
  const int64_t groups = attrs.Int("groups", 1, kMaxInt);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  if (std::find(x->shape.begin() + 1, x->shape.end(), 0) != x->shape.end()) {
    return Invalid("x is ", ToString(*x), ": there are no elements to normalise");
  }
  if (x->shape[1] % groups != 0) {
    return Invalid("groups=", groups, " must divide the channels of x, ", ToString(*x));
  }
  return GroupInput{*x, {x->dtype, {x->shape[1]}}, {x->dtype, {x->shape[0], groups}}};
}

// (x, scale, bias) -> y, mean, inv_std
absl::StatusOr<Types> GroupNormShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  attrs.Float("epsilon", 0, 1e6, 1e-5);
  EBB_ASSIGN_OR_RETURN(const GroupInput group, ReadGroups(context, 0, attrs));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "scale", group.channel));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "bias", group.channel));
  return Outputs({group.x, group.stats, group.stats});
}

// (dy, x, scale, mean, inv_std) -> dx, dscale, dbias
absl::StatusOr<Types> GroupNormGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EBB_ASSIGN_OR_RETURN(const GroupInput group, ReadGroups(context, 1, attrs));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", group.x));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "scale", group.channel));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "mean", group.stats));
  EBB_RETURN_IF_ERROR(Exactly(context, 4, "inv_std", group.stats));
  return Outputs({group.x, group.channel, group.channel});
}

absl::Status GroupNormGradient(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 1, "the groups' means"));
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 2, "the groups' deviations"));
  if (!grad.dy(0).valid() || (!Wants(grad, 0) && !Wants(grad, 1) && !Wants(grad, 2))) {
    return absl::OkStatus();
  }
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(
      const std::vector<ValueId> made,
      grad.EmitAll("GroupNormGrad",
                   {grad.dy(0), node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[2]},
                   {{"groups", node.attrs.Int("groups", 1)}}));
  for (size_t i = 0; i < 3; ++i) {
    if (Wants(grad, i)) grad.SetGrad(i, made[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OpDef> GroupNorm() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "GroupNorm",
       .min_inputs = 3,
       .max_inputs = 3,
       .shape = GroupNormShape,
       .gradient = GroupNormGradient,
       .flops = PerOutput<8>,
       .in_place = 0},
      {.name = "GroupNormGrad",
       .min_inputs = 5,
       .max_inputs = 5,
       .shape = GroupNormGradShape,
       .flops = PerOutput<12>,
       .in_place = 0},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
