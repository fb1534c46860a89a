// Functions of one tensor that are made of a few graph ops: trigonometry, rounding, rarer
// activations; and Mod.
#include <numbers>

#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

using graph::Attrs;

absl::Status Same(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  if (!graph::IsFloat(c.type(0).dtype) && (c.op() == "Floor" || c.op() == "Ceil")) {
    c.Alias(0);
    return absl::OkStatus();
  }
  return c.Result(c.op(), {x});
}

// sqrt(scale x^2 + shift)
absl::StatusOr<ValueId> RootOfSquare(ConvertContext& c, ValueId x, double scale, double shift) {
  EBB_ASSIGN_OR_RETURN(const ValueId square, c.Emit("Mul", {x, x}));
  EBB_ASSIGN_OR_RETURN(const ValueId sum,
                       c.Emit("Scale", {square}, {{"scale", scale}, {"shift", shift}}));
  return c.Emit("Sqrt", {sum});
}

absl::Status Tan(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId sin, c.Emit("Sin", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId cos, c.Emit("Cos", {x}));
  return c.Result("Div", {sin, cos});
}

// asin x = atan(x / sqrt(1 - x^2)), acos x = pi / 2 - asin x
absl::Status ArcSine(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId other, RootOfSquare(c, x, -1, 1));
  EBB_ASSIGN_OR_RETURN(const ValueId slope, c.Emit("Div", {x, other}));
  if (c.op() == "Asin") return c.Result("Atan", {slope});
  EBB_ASSIGN_OR_RETURN(const ValueId asin, c.Emit("Atan", {slope}));
  return c.Result("Scale", {asin}, {{"scale", -1.0}, {"shift", std::numbers::pi / 2}});
}

// (e^x +- e^-x) / 2
absl::Status Hyperbolic(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId up, c.Emit("Exp", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId negated, c.Emit("Neg", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId down, c.Emit("Exp", {negated}));
  EBB_ASSIGN_OR_RETURN(const ValueId both, c.Emit(c.op() == "Sinh" ? "Sub" : "Add", {up, down}));
  return c.Result("Scale", {both}, {{"scale", 0.5}});
}

absl::Status Acosh(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId root, RootOfSquare(c, x, 1, -1));
  EBB_ASSIGN_OR_RETURN(const ValueId sum, c.Emit("Add", {x, root}));
  return c.Result("Log", {sum});
}

// s log(s x + sqrt(x^2 + 1)), where s is the sign of x, and 1 at 0: no digits cancel.
absl::Status Asinh(ConvertContext& c) {
  const DType dtype = c.type(0).dtype;
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId below,
                       c.Emit("Less", {x, c.Constant(ScalarTensor(dtype, 0))}));
  EBB_ASSIGN_OR_RETURN(const ValueId sign,
                       c.Emit("Where", {below, c.Constant(ScalarTensor(dtype, -1)),
                                        c.Constant(ScalarTensor(dtype, 1))}));
  EBB_ASSIGN_OR_RETURN(const ValueId size, c.Emit("Mul", {x, sign}));
  EBB_ASSIGN_OR_RETURN(const ValueId root, RootOfSquare(c, x, 1, 1));
  EBB_ASSIGN_OR_RETURN(const ValueId sum, c.Emit("Add", {size, root}));
  EBB_ASSIGN_OR_RETURN(const ValueId log, c.Emit("Log", {sum}));
  return c.Result("Mul", {log, sign});
}

// log((1 + x) / (1 - x)) / 2
absl::Status Atanh(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId up, c.Emit("Scale", {x}, {{"shift", 1.0}}));
  EBB_ASSIGN_OR_RETURN(const ValueId down, c.Emit("Scale", {x}, {{"scale", -1.0}, {"shift", 1.0}}));
  EBB_ASSIGN_OR_RETURN(const ValueId ratio, c.Emit("Div", {up, down}));
  EBB_ASSIGN_OR_RETURN(const ValueId log, c.Emit("Log", {ratio}));
  return c.Result("Scale", {log}, {{"scale", 0.5}});
}

// alpha elu(x / alpha)
absl::Status Celu(ConvertContext& c) {
  const double alpha = c.Float("alpha", 1);
  if (!(alpha > 0)) return c.Invalid("alpha must be above 0");
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  if (alpha == 1) return c.Result("Elu", {x}, {{"alpha", 1.0}});
  EBB_ASSIGN_OR_RETURN(const ValueId scaled, c.Emit("Scale", {x}, {{"scale", 1 / alpha}}));
  EBB_ASSIGN_OR_RETURN(const ValueId elu, c.Emit("Elu", {scaled}, {{"alpha", 1.0}}));
  return c.Result("Scale", {elu}, {{"scale", alpha}});
}

// x where x > alpha, else 0
absl::Status ThresholdedRelu(ConvertContext& c) {
  const DType dtype = c.type(0).dtype;
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId above,
                       c.Emit("Less", {c.Constant(ScalarTensor(dtype, c.Float("alpha", 1))), x}));
  return c.Result("Where", {above, x, c.Constant(ScalarTensor(dtype, 0))});
}

// x + bias where x < -lambd, x - bias where x > lambd, else 0
absl::Status Shrink(ConvertContext& c) {
  const DType dtype = c.type(0).dtype;
  const double lambd = c.Float("lambd", 0.5), bias = c.Float("bias", 0);
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId below,
                       c.Emit("Less", {x, c.Constant(ScalarTensor(dtype, -lambd))}));
  EBB_ASSIGN_OR_RETURN(const ValueId above,
                       c.Emit("Less", {c.Constant(ScalarTensor(dtype, lambd)), x}));
  EBB_ASSIGN_OR_RETURN(const ValueId low, c.Emit("Scale", {x}, {{"shift", bias}}));
  EBB_ASSIGN_OR_RETURN(const ValueId high, c.Emit("Scale", {x}, {{"shift", -bias}}));
  EBB_ASSIGN_OR_RETURN(const ValueId rest,
                       c.Emit("Where", {above, high, c.Constant(ScalarTensor(dtype, 0))}));
  return c.Result("Where", {below, low, rest});
}

absl::Status Mod(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId a, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId b, c.In(1));
  return c.Result("Mod", {a, b}, {{"fmod", int64_t{c.Int("fmod", 0) != 0}}});
}

// 1 at the first largest element along the axis; before opset 13 the axes from it on are one.
absl::Status Hardmax(ConvertContext& c) {
  const bool flat = c.opset() < 13;
  EBB_ASSIGN_OR_RETURN(int64_t axis, NormalAxis(c, c.Int("axis", flat ? 1 : -1), c.rank(0)));
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  Shape shape = c.shape(0);
  if (flat) {
    const Shape rows{graph::NumElements(Shape(shape.begin(), shape.begin() + axis)),
                     graph::NumElements(Shape(shape.begin() + axis, shape.end()))};
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Reshape", {x}, {{"shape", Ints(rows.begin(), rows.end())}}));
    shape = rows;
    axis = 1;
  }
  EBB_ASSIGN_OR_RETURN(const ValueId at, c.Emit("ArgMax", {x}, {{"axis", axis}}));
  Shape along(shape.size(), 1);
  along[static_cast<size_t>(axis)] = shape[static_cast<size_t>(axis)];
  EBB_ASSIGN_OR_RETURN(HostTensor positions, c.Allocate({DType::kI64, along}));
  for (size_t i = 0; i < positions.as<int64_t>().size(); ++i) {
    positions.as<int64_t>()[i] = static_cast<int64_t>(i);
  }
  EBB_ASSIGN_OR_RETURN(const ValueId hit, c.Emit("Equal", {at, c.Constant(std::move(positions))}));
  const Attrs to = {{"to", std::string(graph::Name(c.type(0).dtype))}};
  if (!flat) return c.Result("Cast", {hit}, to);
  EBB_ASSIGN_OR_RETURN(const ValueId matrix, c.Emit("Cast", {hit}, to));
  return c.Result("Reshape", {matrix}, {{"shape", Ints(c.shape(0).begin(), c.shape(0).end())}});
}

constexpr OnnxOp kRows[] = {
    {"Sin", 1, 1, kAllInputs, Same},        {"Cos", 1, 1, kAllInputs, Same},
    {"Tan", 1, 1, kAllInputs, Tan},         {"Asin", 1, 1, kAllInputs, ArcSine},
    {"Acos", 1, 1, kAllInputs, ArcSine},    {"Atan", 1, 1, kAllInputs, Same},
    {"Sinh", 1, 1, kAllInputs, Hyperbolic}, {"Cosh", 1, 1, kAllInputs, Hyperbolic},
    {"Asinh", 1, 1, kAllInputs, Asinh},     {"Acosh", 1, 1, kAllInputs, Acosh},
    {"Atanh", 1, 1, kAllInputs, Atanh},     {"Floor", 1, 1, kNoInputs, Same},
    {"Ceil", 1, 1, kNoInputs, Same},        {"Round", 1, 1, kNoInputs, Same},
    {"Celu", 1, 1, kAllInputs, Celu},       {"ThresholdedRelu", 1, 1, kAllInputs, ThresholdedRelu},
    {"Shrink", 1, 1, kAllInputs, Shrink},   {"Mod", 2, 2, kAllInputs, Mod},
    {"Hardmax", 1, 1, kNoInputs, Hardmax}};

}  // namespace

absl::Span<const OnnxOp> MathOps() { return kRows; }

}  // namespace ebb::model
