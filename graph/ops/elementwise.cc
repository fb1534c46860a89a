// Elementwise ops of one input, and their gradients.
#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

// ---- Attributes; the gradient of an op takes the same.

void LeakyReluAttrs(AttrReader& attrs) { attrs.Float("alpha", 0.01); }
void EluAttrs(AttrReader& attrs) { attrs.Float("alpha", 1); }
void ClipAttrs(AttrReader& attrs) {
  attrs.Bound("min");
  attrs.Bound("max");
}
void HardTanhAttrs(AttrReader& attrs) {
  const double min = attrs.Float("min", -1), max = attrs.Float("max", 1);
  attrs.Check(min < max, "min is ", min, ", needs to be less than max, ", max);
}
void HardSigmoidAttrs(AttrReader& attrs) {
  attrs.Float("alpha", 0.2);
  attrs.Float("beta", 0.5);
}
void GeluAttrs(AttrReader& attrs) { attrs.Word("approximate", {"none", "tanh"}, "none"); }
void ScaleAttrs(AttrReader& attrs) {
  attrs.Float("scale", 1);
  attrs.Float("shift", 0);
}

absl::StatusOr<Types> CastShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const std::string to =
      attrs.Word("to", {"f32", "f64", "i32", "i64", "u8", "bool", "bf16", "f16"});
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  return Output(ParseGraphDType(to).value(), x->shape);
}

// ---- Gradients that are composed. Each sets the gradient of input 0 from dy and x or y.

using Compose = absl::StatusOr<ValueId> (*)(GradContext&, ValueId dy, ValueId x, ValueId y);

template <Compose kCompose>
absl::Status Composed(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       kCompose(grad, grad.dy(0), node.inputs[0], node.outputs[0]));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

absl::StatusOr<ValueId> ExpGrad(GradContext& grad, ValueId dy, ValueId, ValueId y) {
  return grad.Emit("Mul", {dy, y});
}
absl::StatusOr<ValueId> LogGrad(GradContext& grad, ValueId dy, ValueId x, ValueId) {
  return grad.Emit("Div", {dy, x});
}
absl::StatusOr<ValueId> SqrtGrad(GradContext& grad, ValueId dy, ValueId, ValueId y) {
  EBB_ASSIGN_OR_RETURN(const ValueId quotient, grad.Emit("Div", {dy, y}));
  return grad.Emit("Scale", {quotient}, {{"scale", 0.5}});
}
absl::StatusOr<ValueId> NegGrad(GradContext& grad, ValueId dy, ValueId, ValueId) {
  return grad.Emit("Neg", {dy});
}
absl::StatusOr<ValueId> AbsGrad(GradContext& grad, ValueId dy, ValueId x, ValueId) {
  EBB_ASSIGN_OR_RETURN(const ValueId sign, grad.Emit("Sign", {x}));
  return grad.Emit("Mul", {dy, sign});
}
absl::StatusOr<ValueId> ReciprocalGrad(GradContext& grad, ValueId dy, ValueId, ValueId y) {
  EBB_ASSIGN_OR_RETURN(const ValueId once, grad.Emit("Mul", {dy, y}));
  EBB_ASSIGN_OR_RETURN(const ValueId twice, grad.Emit("Mul", {once, y}));
  return grad.Emit("Neg", {twice});
}
absl::StatusOr<ValueId> SinGrad(GradContext& grad, ValueId dy, ValueId x, ValueId) {
  EBB_ASSIGN_OR_RETURN(const ValueId slope, grad.Emit("Cos", {x}));
  return grad.Emit("Mul", {dy, slope});
}
absl::StatusOr<ValueId> CosGrad(GradContext& grad, ValueId dy, ValueId x, ValueId) {
  EBB_ASSIGN_OR_RETURN(const ValueId slope, grad.Emit("Sin", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId product, grad.Emit("Mul", {dy, slope}));
  return grad.Emit("Neg", {product});
}
// dy / (1 + x^2)
absl::StatusOr<ValueId> AtanGrad(GradContext& grad, ValueId dy, ValueId x, ValueId) {
  EBB_ASSIGN_OR_RETURN(const ValueId square, grad.Emit("Mul", {x, x}));
  EBB_ASSIGN_OR_RETURN(const ValueId shifted, grad.Emit("Scale", {square}, {{"shift", 1.0}}));
  return grad.Emit("Div", {dy, shifted});
}
absl::StatusOr<ValueId> ScaleGrad(GradContext& grad, ValueId dy, ValueId, ValueId) {
  return grad.Emit("Scale", {dy}, {{"scale", grad.node().attrs.Float("scale", 1)}});
}
absl::StatusOr<ValueId> IdentityGrad(GradContext&, ValueId dy, ValueId, ValueId) { return dy; }

// Nothing flows through a cast from or to an integer.
absl::Status CastGrad(GradContext& grad) {
  const DType from = grad.type(grad.node().inputs[0]).dtype;
  const DType to = grad.type(grad.node().outputs[0]).dtype;
  if (!Wants(grad, 0) || !grad.dy(0).valid() || !IsFloat(from) || !IsFloat(to)) {
    return absl::OkStatus();
  }
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit("Cast", {grad.dy(0)}, {{"to", std::string(Name(from))}}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// ---- Rows.

template <int64_t kFlops, ReadAttrs kRead = NoAttrs>
OpDef Unary(absl::string_view name, absl::Status (*gradient)(GradContext&)) {
  return {.name = name,
          .shape = SameType<kRead>,
          .gradient = gradient,
          .flops = PerOutput<kFlops>,
          .in_place = 0,
          .elementwise = true};
}

// <Op>Grad(dy, x or y); not differentiable in turn.
template <int64_t kFlops, ReadAttrs kRead = NoAttrs>
OpDef UnaryGrad(absl::string_view name) {
  OpDef op = Unary<kFlops, kRead>(name, nullptr);
  op.min_inputs = op.max_inputs = 2;
  return op;
}

}  // namespace

absl::Span<const OpDef> Elementwise() {
  static const auto* const rows = new std::vector<OpDef>{
      Unary<1>("Relu", GradFromOutput),
      UnaryGrad<1>("ReluGrad"),
      Unary<2, LeakyReluAttrs>("LeakyRelu", GradFromInput),
      UnaryGrad<2, LeakyReluAttrs>("LeakyReluGrad"),
      Unary<4, EluAttrs>("Elu", GradFromInput),
      UnaryGrad<4, EluAttrs>("EluGrad"),
      Unary<4>("Sigmoid", GradFromOutput),
      UnaryGrad<3>("SigmoidGrad"),
      Unary<4>("Tanh", GradFromOutput),
      UnaryGrad<3>("TanhGrad"),
      Unary<2, ClipAttrs>("Clip", GradFromInput),
      UnaryGrad<2, ClipAttrs>("ClipGrad"),
      Unary<2, HardTanhAttrs>("HardTanh", GradFromOutput),
      UnaryGrad<2, HardTanhAttrs>("HardTanhGrad"),
      Unary<4, HardSigmoidAttrs>("HardSigmoid", GradFromInput),
      UnaryGrad<4, HardSigmoidAttrs>("HardSigmoidGrad"),
      Unary<5>("HardSwish", GradFromInput),
      UnaryGrad<5>("HardSwishGrad"),
      Unary<5>("Silu", GradFromInput),
      UnaryGrad<8>("SiluGrad"),
      Unary<5>("Softplus", GradFromInput),
      UnaryGrad<5>("SoftplusGrad"),
      Unary<8, GeluAttrs>("Gelu", GradFromInput),
      UnaryGrad<12, GeluAttrs>("GeluGrad"),
      Unary<6>("Erf", GradFromInput),
      UnaryGrad<6>("ErfGrad"),
      Unary<4>("Exp", Composed<ExpGrad>),
      Unary<4>("Log", Composed<LogGrad>),
      Unary<2>("Sqrt", Composed<SqrtGrad>),
      Unary<1>("Neg", Composed<NegGrad>),
      Unary<1>("Abs", Composed<AbsGrad>),
      Unary<1>("Reciprocal", Composed<ReciprocalGrad>),
      Unary<1>("Sign", ZeroGradient),
      Unary<1>("Floor", ZeroGradient),
      Unary<1>("Ceil", ZeroGradient),
      Unary<1>("Round", ZeroGradient),
      Unary<6>("Sin", Composed<SinGrad>),
      Unary<6>("Cos", Composed<CosGrad>),
      Unary<8>("Atan", Composed<AtanGrad>),
      Unary<2, ScaleAttrs>("Scale", Composed<ScaleGrad>),
      {.name = "Cast",
       .shape = CastShape,
       .gradient = CastGrad,
       .flops = PerOutput<1>,
       .elementwise = true},
      {.name = "Identity",
       .shape = SameType<NoAttrs, Kind::kAny>,
       .gradient = Composed<IdentityGrad>,
       .is_view = true,
       .elementwise = true},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
