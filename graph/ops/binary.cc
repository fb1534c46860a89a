// Broadcasting ops of two inputs, what broadcasts up and sums down, and the sum of many.
#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

absl::StatusOr<Types> BroadcastShape(const ShapeContext& context, Kind kind,
                                     ReadAttrs read = NoAttrs) {
  AttrReader attrs(context.attrs);
  read(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* a, Required(context, 0, "a", kind));
  EBB_ASSIGN_OR_RETURN(const TensorType* b, Required(context, 1, "b", kind));
  const std::optional<Shape> shape = BroadcastShapes(a->shape, b->shape);
  if (!shape || a->dtype != b->dtype) {
    return Invalid("a is ", ToString(*a), " and b is ", ToString(*b),
                   ", they need one type and shapes that broadcast");
  }
  return Output(a->dtype, *shape);
}

absl::StatusOr<Types> NumberShape(const ShapeContext& context) {
  return BroadcastShape(context, Kind::kNumber);
}
absl::StatusOr<Types> FloatShape(const ShapeContext& context) {
  return BroadcastShape(context, Kind::kFloat);
}
absl::StatusOr<Types> ModShape(const ShapeContext& context) {
  return BroadcastShape(context, Kind::kNumber, [](AttrReader& attrs) { attrs.Flag("fmod"); });
}

// Expand (up) and SumTo (down) from x to {shape}: `small` must broadcast to exactly `large`.
absl::Status CheckBroadcasts(const Shape& small, const Shape& large) {
  if (BroadcastShapes(small, large) == large) return absl::OkStatus();
  return Invalid(ToString(small), " does not broadcast to ", ToString(large));
}

absl::StatusOr<Types> ExpandShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const Shape shape = attrs.Dims("shape");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x", Kind::kAny));
  EBB_RETURN_IF_ERROR(CheckBroadcasts(x->shape, shape));
  return Output(x->dtype, shape);
}

absl::StatusOr<Types> SumToShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const Shape shape = attrs.Dims("shape");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "x"));
  EBB_RETURN_IF_ERROR(CheckBroadcasts(shape, x->shape));
  return Output(x->dtype, shape);
}

// ---- Gradients. `kA` and `kB` make dy's share of an input before it is summed to its shape.

struct Operands {
  ValueId dy, a, b, y;
};
using Share = absl::StatusOr<ValueId> (*)(GradContext&, const Operands&);

template <Share kA, Share kB>
absl::Status BinaryGrad(GradContext& grad) {
  if (!grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  const Operands operands{grad.dy(0), node.inputs[0], node.inputs[1], node.outputs[0]};
  if (Wants(grad, 0)) {
    EBB_ASSIGN_OR_RETURN(const ValueId da, kA(grad, operands));
    EBB_RETURN_IF_ERROR(SetGradSummed(grad, 0, da));
  }
  if (Wants(grad, 1)) {
    EBB_ASSIGN_OR_RETURN(const ValueId db, kB(grad, operands));
    EBB_RETURN_IF_ERROR(SetGradSummed(grad, 1, db));
  }
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Whole(GradContext&, const Operands& v) { return v.dy; }

absl::StatusOr<ValueId> TimesB(GradContext& grad, const Operands& v) {
  return grad.Emit("Mul", {v.dy, v.b});
}
absl::StatusOr<ValueId> TimesA(GradContext& grad, const Operands& v) {
  return grad.Emit("Mul", {v.dy, v.a});
}
absl::StatusOr<ValueId> OverB(GradContext& grad, const Operands& v) {
  return grad.Emit("Div", {v.dy, v.b});
}
// -dy a / b^2, by the quotient that is already there.
absl::StatusOr<ValueId> DivB(GradContext& grad, const Operands& v) {
  EBB_ASSIGN_OR_RETURN(const ValueId product, grad.Emit("Mul", {v.dy, v.y}));
  EBB_ASSIGN_OR_RETURN(const ValueId quotient, grad.Emit("Div", {product, v.b}));
  return grad.Emit("Neg", {quotient});
}
// dy b a^(b - 1)
absl::StatusOr<ValueId> PowA(GradContext& grad, const Operands& v) {
  EBB_ASSIGN_OR_RETURN(const ValueId less,
                       grad.Emit("Scale", {v.b}, {{"scale", 1.0}, {"shift", -1.0}}));
  EBB_ASSIGN_OR_RETURN(const ValueId power, grad.Emit("Pow", {v.a, less}));
  EBB_ASSIGN_OR_RETURN(const ValueId slope, grad.Emit("Mul", {power, v.b}));
  return grad.Emit("Mul", {v.dy, slope});
}
// dy y log a
absl::StatusOr<ValueId> PowB(GradContext& grad, const Operands& v) {
  EBB_ASSIGN_OR_RETURN(const ValueId log, grad.Emit("Log", {v.a}));
  EBB_ASSIGN_OR_RETURN(const ValueId slope, grad.Emit("Mul", {v.y, log}));
  return grad.Emit("Mul", {v.dy, slope});
}
// -dy times the whole number of b in a: rounded down, or for fmod towards zero.
absl::StatusOr<ValueId> ModB(GradContext& grad, const Operands& v) {
  const bool fmod = grad.node().attrs.Int("fmod", 0) != 0;
  EBB_ASSIGN_OR_RETURN(ValueId whole, grad.Emit("Div", {v.a, v.b}));
  ValueId sign;
  if (fmod) {
    EBB_ASSIGN_OR_RETURN(sign, grad.Emit("Sign", {whole}));
    EBB_ASSIGN_OR_RETURN(whole, grad.Emit("Abs", {whole}));
  }
  EBB_ASSIGN_OR_RETURN(whole, grad.Emit("Floor", {whole}));
  if (fmod) {
    EBB_ASSIGN_OR_RETURN(whole, grad.Emit("Mul", {whole, sign}));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId product, grad.Emit("Mul", {v.dy, whole}));
  return grad.Emit("Neg", {product});
}

absl::Status SubGrad(GradContext& grad) {
  if (!grad.dy(0).valid()) return absl::OkStatus();
  if (Wants(grad, 0)) EBB_RETURN_IF_ERROR(SetGradSummed(grad, 0, grad.dy(0)));
  if (!Wants(grad, 1)) return absl::OkStatus();
  // Summed before it is negated: fewer elements.
  EBB_ASSIGN_OR_RETURN(ValueId db,
                       SummedTo(grad, grad.dy(0), grad.type(grad.node().inputs[1]).shape));
  EBB_ASSIGN_OR_RETURN(db, grad.Emit("Neg", {db}));
  grad.SetGrad(1, db);
  return absl::OkStatus();
}

// Max (Min): dy to the larger (smaller), half of it to each of two equals, as PyTorch.
template <bool kMax>
absl::Status SelectGrad(GradContext& grad) {
  if (!grad.dy(0).valid() || (!Wants(grad, 0) && !Wants(grad, 1))) return absl::OkStatus();
  const ValueId a = grad.node().inputs[0], b = grad.node().inputs[1];
  const ValueId more = kMax ? a : b, less = kMax ? b : a;
  EBB_ASSIGN_OR_RETURN(const ValueId takes_a, grad.Emit("GreaterEqual", {more, less}));
  EBB_ASSIGN_OR_RETURN(const ValueId takes_b, grad.Emit("GreaterEqual", {less, more}));
  EBB_ASSIGN_OR_RETURN(const ValueId apart, grad.Emit("Sub", {takes_a, takes_b}));  // 1, 0 or -1
  for (const size_t i : {size_t{0}, size_t{1}}) {
    if (!Wants(grad, i)) continue;
    EBB_ASSIGN_OR_RETURN(
        const ValueId share,
        grad.Emit("Scale", {apart}, {{"scale", i == 0 ? 0.5 : -0.5}, {"shift", 0.5}}));
    EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit("Mul", {grad.dy(0), share}));
    EBB_RETURN_IF_ERROR(SetGradSummed(grad, i, dx));
  }
  return absl::OkStatus();
}

absl::Status AddNGrad(GradContext& grad) {
  if (!grad.dy(0).valid()) return absl::OkStatus();
  for (size_t i = 0; i < grad.node().inputs.size(); ++i) {
    if (Wants(grad, i)) grad.SetGrad(i, grad.dy(0));
  }
  return absl::OkStatus();
}

absl::Status SumToGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Shape& shape = grad.type(grad.node().inputs[0]).shape;
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit("Expand", {grad.dy(0)}, {{"shape", ToInts(shape)}}));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

absl::Status ExpandGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  return SetGradSummed(grad, 0, grad.dy(0));
}

Flops AddNFlops(const Graph& graph, const Node& node) {
  return Product({static_cast<int64_t>(node.inputs.size()) - 1, OutputElements(graph, node, 0)});
}

template <int64_t kFlops>
OpDef Binary(absl::string_view name, absl::StatusOr<Types> (*shape)(const ShapeContext&),
             absl::Status (*gradient)(GradContext&), int in_place) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .shape = shape,
          .gradient = gradient,
          .flops = PerOutput<kFlops>,
          .in_place = in_place,
          .elementwise = true};
}

}  // namespace

absl::Span<const OpDef> Binary() {
  static const auto* const rows = new std::vector<OpDef>{
      Binary<1>("Add", NumberShape, BinaryGrad<Whole, Whole>, 0),
      Binary<1>("Sub", NumberShape, SubGrad, 0),
      Binary<1>("Mul", NumberShape, BinaryGrad<TimesB, TimesA>, 0),
      Binary<1>("Div", NumberShape, BinaryGrad<OverB, DivB>, 0),
      Binary<1>("Max", NumberShape, SelectGrad<true>, -1),
      Binary<1>("Min", NumberShape, SelectGrad<false>, -1),
      Binary<8>("Pow", FloatShape, BinaryGrad<PowA, PowB>, -1),
      Binary<8>("Mod", ModShape, BinaryGrad<Whole, ModB>, -1),
      Binary<1>("GreaterEqual", FloatShape, nullptr, -1),
      {.name = "AddN",
       .min_inputs = 1,
       .max_inputs = -1,
       .shape = SameType<>,
       .gradient = AddNGrad,
       .flops = AddNFlops,
       .in_place = 0,
       .elementwise = true},
      {.name = "SumTo", .shape = SumToShape, .gradient = SumToGrad, .flops = PerInput<1>},
      {.name = "Expand", .shape = ExpandShape, .gradient = ExpandGrad},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
