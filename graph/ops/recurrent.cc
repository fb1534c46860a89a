// Recurrent layers over a whole sequence, in one direction. The projection of the inputs is a
// product before the op, pre = x W^T + b for all steps at once, so that only what depends on the
// step before is in here.
#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

// T steps of N sequences, H hidden units, G gates. r is [G H, H], its blocks of H rows in the order
// that the attribute `gates` gives.
struct Sizes {
  int64_t steps = 0, batch = 0, hidden = 0;
  DType dtype = DType::kF32;
  TensorType state() const { return {dtype, {batch, hidden}}; }
  TensorType sequence() const { return {dtype, {steps, batch, hidden}}; }
};

// Of the input `wide` [T,N,G H] and of r.
absl::StatusOr<Sizes> SizesOf(const ShapeContext& context, size_t wide, absl::string_view name,
                              size_t r_input, int64_t gates) {
  EBB_ASSIGN_OR_RETURN(const TensorType* pre, Required(context, wide, name));
  EBB_RETURN_IF_ERROR(CheckRank(name, *pre, 3, 3));
  EBB_ASSIGN_OR_RETURN(const TensorType* r, Required(context, r_input, "r"));
  EBB_RETURN_IF_ERROR(CheckRank("r", *r, 2, 2));
  const Sizes sizes{pre->shape[0], pre->shape[1], r->shape[1], pre->dtype};
  const Shape rows = {gates * sizes.hidden, sizes.hidden};
  if (r->dtype != pre->dtype || r->shape != rows || pre->shape[2] != rows[0]) {
    return Invalid(name, " is ", ToString(*pre), " and r is ", ToString(*r),
                   ", they need one type,", " [T,N,", gates, "H] and [", gates, "H,H]");
  }
  return sizes;
}

// Input `i` is absent or of this type.
absl::Status AbsentOr(const ShapeContext& context, size_t i, absl::string_view name,
                      const TensorType& want) {
  if (i >= context.inputs.size() || context.inputs[i] == nullptr) return absl::OkStatus();
  return Exactly(context, i, name, want);
}

absl::Status LstmAttrs(const Attrs& all) {
  AttrReader attrs(all);
  attrs.Word("gates", {"iofc", "ifco"});
  attrs.Flag("reverse");
  return attrs.Finish();
}

// Lstm(pre, r, [h0], [c0]) -> y, cells, gates
absl::StatusOr<Types> LstmShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(LstmAttrs(context.attrs));
  EBB_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(context, 0, "pre", 1, 4));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 2, "h0", sizes.state()));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 3, "c0", sizes.state()));
  return Outputs({sizes.sequence(), sizes.sequence(), *context.inputs[0]});
}

// LstmGrad(gates, y, cells, r, [dy], [dcells], [h0], [c0]) -> dpre, dr, dh0, dc0
absl::StatusOr<Types> LstmGradShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(LstmAttrs(context.attrs));
  EBB_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(context, 0, "gates", 3, 4));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "y", sizes.sequence()));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "cells", sizes.sequence()));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 4, "dy", sizes.sequence()));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 5, "dcells", sizes.sequence()));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 6, "h0", sizes.state()));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 7, "c0", sizes.state()));
  const auto given = [&](size_t i) { return i < context.inputs.size() && context.inputs[i]; };
  if (!given(4) && !given(5)) return Invalid("neither dy nor dcells is given");
  return Outputs({*context.inputs[0], *context.inputs[3], sizes.state(), sizes.state()});
}

ValueId InputOr(const Node& node, size_t i) {
  return i < node.inputs.size() ? node.inputs[i] : ValueId();
}

absl::Status LstmGrad(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 2, "its gates"));
  const Node node = grad.node();
  const ValueId dy = grad.dy(0), dcells = grad.dy(1);
  const bool wanted = Wants(grad, 0) || Wants(grad, 1) || Wants(grad, 2) || Wants(grad, 3);
  if (!wanted || !(dy.valid() || dcells.valid())) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(
      const std::vector<ValueId> grads,
      grad.EmitAll("LstmGrad",
                   {node.outputs[2], node.outputs[0], node.outputs[1], node.inputs[1], dy, dcells,
                    InputOr(node, 2), InputOr(node, 3)},
                   node.attrs));
  for (size_t i = 0; i < 4; ++i) {
    if (Wants(grad, i)) grad.SetGrad(i, grads[i]);
  }
  return absl::OkStatus();
}

absl::Status GruAttrs(const Attrs& all) {
  AttrReader attrs(all);
  attrs.Word("gates", {"zrh", "rzh"});
  attrs.Flag("reverse");
  attrs.Flag("linear_before_reset", true);
  return attrs.Finish();
}

// Gru(pre, r, [rb], [h0]) -> y, mixed, gates
absl::StatusOr<Types> GruShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(GruAttrs(context.attrs));
  EBB_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(context, 0, "pre", 1, 3));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 2, "rb", {sizes.dtype, {3 * sizes.hidden}}));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 3, "h0", sizes.state()));
  return Outputs({sizes.sequence(), sizes.sequence(), *context.inputs[0]});
}

// GruGrad(gates, y, mixed, r, dy, [h0]) -> dpre, dr, drb, dh0
absl::StatusOr<Types> GruGradShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(GruAttrs(context.attrs));
  EBB_ASSIGN_OR_RETURN(const Sizes sizes, SizesOf(context, 0, "gates", 3, 3));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "y", sizes.sequence()));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "mixed", sizes.sequence()));
  EBB_RETURN_IF_ERROR(Exactly(context, 4, "dy", sizes.sequence()));
  EBB_RETURN_IF_ERROR(AbsentOr(context, 5, "h0", sizes.state()));
  return Outputs(
      {*context.inputs[0], *context.inputs[3], {sizes.dtype, {3 * sizes.hidden}}, sizes.state()});
}

absl::Status GruGrad(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 1, "its hidden sums"));
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 2, "its gates"));
  const Node node = grad.node();
  const bool wanted = Wants(grad, 0) || Wants(grad, 1) || Wants(grad, 2) || Wants(grad, 3);
  if (!wanted || !grad.dy(0).valid()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> grads,
                       grad.EmitAll("GruGrad",
                                    {node.outputs[2], node.outputs[0], node.outputs[1],
                                     node.inputs[1], grad.dy(0), InputOr(node, 3)},
                                    node.attrs));
  for (size_t i = 0; i < 4; ++i) {
    if (Wants(grad, i)) grad.SetGrad(i, grads[i]);
  }
  return absl::OkStatus();
}

// The products, and `kAround` operations of the gates for every hidden unit. `kProducts`: one
// forward, two backward (to the state before and to r). r is the input `kR`.
template <int64_t kProducts, int64_t kR, int64_t kAround>
Flops RecurrentFlops(const Graph& graph, const Node& node) {
  const Shape& wide = graph.value(node.inputs[0]).type.shape;
  const int64_t hidden = graph.value(node.inputs[kR]).type.shape[1];
  const int64_t products = Product({2 * kProducts, NumElements(wide), hidden}).count();
  const int64_t around = Product({kAround, wide[0], wide[1], hidden}).count();
  int64_t sum = 0;
  if (__builtin_add_overflow(products, around, &sum)) return Product({products, 2});
  return Flops(sum);
}

}  // namespace

absl::Span<const OpDef> Recurrent() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "Lstm",
       .min_inputs = 2,
       .max_inputs = 4,
       .shape = LstmShape,
       .gradient = LstmGrad,
       .flops = RecurrentFlops<1, 1, 60>},
      {.name = "LstmGrad",
       .min_inputs = 4,
       .max_inputs = 8,
       .shape = LstmGradShape,
       .flops = RecurrentFlops<2, 3, 45>,
       .in_place = 0},
      {.name = "Gru",
       .min_inputs = 2,
       .max_inputs = 4,
       .shape = GruShape,
       .gradient = GruGrad,
       .flops = RecurrentFlops<1, 1, 45>},
      {.name = "GruGrad",
       .min_inputs = 5,
       .max_inputs = 6,
       .shape = GruGradShape,
       .flops = RecurrentFlops<2, 3, 25>,
       .in_place = 0},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
