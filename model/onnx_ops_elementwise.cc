// Elementwise and broadcasting ops, and their arithmetic with constants.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_tensor.h"

namespace ebb::model {
namespace {

using graph::Attrs;

// What the graph has of floats only, by other ops of integers.
absl::Status OfIntegers(ConvertContext& c, ValueId x) {
  const auto number = [&](double value) {
    return c.Constant(ScalarTensor(c.type(0).dtype, value));
  };
  if (c.op() == "Relu") return c.Result("Max", {x, number(0)});
  if (c.op() == "Neg") return c.Result("Sub", {number(0), x});
  if (c.op() == "Abs") {
    EBB_ASSIGN_OR_RETURN(const ValueId negated, c.Emit("Sub", {number(0), x}));
    return c.Result("Max", {x, negated});
  }
  if (c.op() != "Sign") return c.Result(c.op(), {x});
  EBB_ASSIGN_OR_RETURN(x, c.Emit("Max", {x, number(-1)}));
  return c.Result("Min", {x, number(1)});
}

// The graph has an op of the same name and meaning.
absl::Status Same(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  if (!graph::IsFloat(c.type(0).dtype)) return OfIntegers(c, x);
  return c.Result(c.op(), {x});
}

absl::Status Identity(ConvertContext& c) {
  c.Alias(0);
  return absl::OkStatus();
}

absl::Status WithAlpha(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result(c.op(), {x}, {{"alpha", c.Float("alpha", c.op() == "Elu" ? 1.0 : 0.01)}});
}

absl::Status HardSigmoid(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("HardSigmoid", {x},
                  {{"alpha", c.Float("alpha", 0.2)}, {"beta", c.Float("beta", 0.5)}});
}

absl::Status Gelu(ConvertContext& c) {
  const std::string approximate = c.Str("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return c.Invalid(absl::StrCat("approximate '", approximate, "' is unknown"));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("Gelu", {x}, {{"approximate", approximate}});
}

// Of integers, or by bounds that the step computes.
absl::Status ClipByTensors(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  for (const size_t input : {size_t{1}, size_t{2}}) {
    if (!c.Has(input)) continue;
    EBB_ASSIGN_OR_RETURN(const ValueId bound, c.In(input));
    EBB_ASSIGN_OR_RETURN(x, c.Emit(input == 1 ? "Max" : "Min", {x, bound}));
  }
  c.SetOutput(0, x);
  return absl::OkStatus();
}

absl::Status Clip(ConvertContext& c) {
  const bool known = (!c.Has(1) || c.host(1) != nullptr) && (!c.Has(2) || c.host(2) != nullptr);
  if (c.opset() >= 11 && (!known || !graph::IsFloat(c.type(0).dtype))) return ClipByTensors(c);
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  Attrs attrs;
  for (const char* name : {"min", "max"}) {
    const size_t input = name[1] == 'i' ? 1 : 2;
    EBB_RETURN_IF_ERROR(c.CheckSpelling(name, input, 11));
    if (c.opset() < 11) {
      if (c.HasAttr(name)) attrs.Set(name, c.Float(name, 0));
    } else if (c.Has(input)) {
      EBB_ASSIGN_OR_RETURN(const HostTensor* bound, c.Known(input, name));
      if (graph::NumElements(bound->type.shape) != 1) {
        return c.Invalid(absl::StrCat(name, " must be a scalar"));
      }
      attrs.Set(name, FirstAsDouble(*bound));
    }
  }
  return c.Result("Clip", {x}, std::move(attrs));
}

// slope < 0 side: y = relu(x) - slope relu(-x).
absl::Status PRelu(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId slope, c.Weight(1));
  EBB_ASSIGN_OR_RETURN(const ValueId positive, c.Emit("Relu", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId negated, c.Emit("Neg", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId negative, c.Emit("Relu", {negated}));
  EBB_ASSIGN_OR_RETURN(const ValueId scaled, c.Emit("Mul", {negative, slope}));
  return c.Result("Sub", {positive, scaled});
}

absl::Status Selu(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(
      const ValueId elu,
      c.Emit("Elu", {x}, {{"alpha", c.Float("alpha", 1.67326319217681884765625)}}));
  return c.Result("Scale", {elu}, {{"scale", c.Float("gamma", 1.05070102214813232421875)}});
}

absl::Status Softsign(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId size, c.Emit("Abs", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId shifted, c.Emit("Scale", {size}, {{"shift", 1.0}}));
  return c.Result("Div", {x, shifted});
}

absl::Status Mish(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId softplus, c.Emit("Softplus", {x}));
  EBB_ASSIGN_OR_RETURN(const ValueId tanh, c.Emit("Tanh", {softplus}));
  return c.Result("Mul", {x, tanh});
}

absl::Status Cast(ConvertContext& c) {
  DType to = c.num_inputs() > 1 ? c.type(1).dtype : DType::kF32;
  if (c.op() == "Cast") {
    auto dtype = DTypeFromOnnx(static_cast<int>(c.Int("to", 0)));
    if (!dtype.ok()) return Annotate(dtype.status(), NodeLabel(c.proto(), c.opset()));
    to = *dtype;
  }
  if (c.type(0).dtype == to) return Identity(c);
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("Cast", {x}, {{"to", std::string(graph::Name(to))}});
}

// One number on the host that broadcasts into the other operand without changing its shape.
bool IsScalarFor(const ConvertContext& c, size_t i, size_t other) {
  return c.host(i) != nullptr && graph::IsFloat(c.type(i).dtype) &&
         c.type(i).dtype == c.type(other).dtype && graph::NumElements(c.shape(i)) == 1 &&
         c.rank(i) <= c.rank(other);
}

// x op number, or number op x, as one Scale; false when there is no such form.
bool ScaleOf(absl::string_view op, double number, bool number_first, Attrs* attrs) {
  double scale = 1, shift = 0;
  if (op == "Add") {
    shift = number;
  } else if (op == "Mul") {
    scale = number;
  } else if (op == "Sub") {
    scale = number_first ? -1 : 1;
    shift = number_first ? number : -number;
  } else if (op == "Div" && !number_first && number != 0) {
    scale = 1 / number;
  } else {
    return false;
  }
  if (!std::isfinite(scale) || !std::isfinite(shift)) return false;
  *attrs = {{"scale", scale}, {"shift", shift}};
  return true;
}

absl::Status Binary(ConvertContext& c) {
  for (size_t number : {size_t{1}, size_t{0}}) {
    const size_t other = 1 - number;
    Attrs attrs;
    if (c.host(other) == nullptr && IsScalarFor(c, number, other) &&
        ScaleOf(c.op(), FirstAsDouble(*c.host(number)), number == 0, &attrs)) {
      EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(other));
      return c.Result("Scale", {x}, std::move(attrs));
    }
  }
  EBB_ASSIGN_OR_RETURN(const ValueId a, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId b, c.In(1));
  return c.Result(c.op(), {a, b});
}

absl::Status Pow(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  const HostTensor* exponent = c.host(1);
  if (exponent == nullptr) {
    EBB_ASSIGN_OR_RETURN(ValueId y, c.In(1));
    if (c.type(1).dtype != c.type(0).dtype) {
      EBB_ASSIGN_OR_RETURN(
          y, c.Emit("Cast", {y}, {{"to", std::string(graph::Name(c.type(0).dtype))}}));
    }
    return c.Result("Pow", {x, y});
  }
  if (graph::NumElements(exponent->type.shape) == 1 && c.rank(1) <= c.rank(0)) {
    const double e = FirstAsDouble(*exponent);
    if (e == 1) return Identity(c);
    if (e == 2) return c.Result("Mul", {x, x});
    if (e == 0.5) return c.Result("Sqrt", {x});
    if (e == -1) return c.Result("Reciprocal", {x});
    if (e == 3) {
      EBB_ASSIGN_OR_RETURN(const ValueId square, c.Emit("Mul", {x, x}));
      return c.Result("Mul", {square, x});
    }
  }
  if (!graph::IsFloat(c.type(0).dtype)) {
    return c.Unimplemented("powers of integers are computed on constants only");
  }
  HostTensor converted = HostTensor::Zeros({c.type(0).dtype, c.shape(1)});
  const std::vector<double> values = AsDoubles(*exponent);
  for (size_t i = 0; i < values.size(); ++i) {
    if (c.type(0).dtype == DType::kF32) converted.as<float>()[i] = static_cast<float>(values[i]);
    if (c.type(0).dtype == DType::kF64) converted.as<double>()[i] = values[i];
  }
  return c.Result("Pow", {x, c.Constant(std::move(converted))});
}

// Sum, Mean, Max, Min over one or more operands.
absl::Status Variadic(ConvertContext& c) {
  const std::string op = c.op() == "Sum" || c.op() == "Mean" ? "Add" : c.op();
  if (c.num_inputs() == 1) return Identity(c);
  bool equal = true;
  std::vector<ValueId> operands;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(i));
    operands.push_back(x);
    equal = equal && c.type(i) == c.type(0);
  }
  if (c.op() == "Sum" && equal && operands.size() > 2) return c.Result("AddN", operands);
  ValueId sum = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    if (i + 1 == operands.size() && c.op() != "Mean") return c.Result(op, {sum, operands[i]});
    EBB_ASSIGN_OR_RETURN(sum, c.Emit(op, {sum, operands[i]}));
  }
  return c.Result("Scale", {sum}, {{"scale", 1.0 / static_cast<double>(operands.size())}});
}

absl::Status Where(ConvertContext& c) {
  if (c.type(0).dtype != DType::kBool) return c.Invalid("the condition must be bool");
  EBB_ASSIGN_OR_RETURN(const ValueId condition, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId a, c.In(1));
  EBB_ASSIGN_OR_RETURN(const ValueId b, c.In(2));
  return c.Result("Where", {condition, a, b});
}

constexpr OnnxOp kRows[] = {{"Relu", 1, 1, kAllInputs, Same},
                            {"LeakyRelu", 1, 1, kAllInputs, WithAlpha},
                            {"Elu", 1, 1, kAllInputs, WithAlpha},
                            {"PRelu", 2, 2, kAllInputs, PRelu},
                            {"Selu", 1, 1, kAllInputs, Selu},
                            {"Sigmoid", 1, 1, kAllInputs, Same},
                            {"Tanh", 1, 1, kAllInputs, Same},
                            {"Clip", 1, 3, kFirstInput, Clip},
                            {"HardSigmoid", 1, 1, kAllInputs, HardSigmoid},
                            {"HardSwish", 1, 1, kAllInputs, Same},
                            {"Softplus", 1, 1, kAllInputs, Same},
                            {"Softsign", 1, 1, kAllInputs, Softsign},
                            {"Mish", 1, 1, kAllInputs, Mish},
                            {"Gelu", 1, 1, kAllInputs, Gelu},
                            {"Erf", 1, 1, kAllInputs, Same},
                            {"Exp", 1, 1, kAllInputs, Same},
                            {"Log", 1, 1, kAllInputs, Same},
                            {"Sqrt", 1, 1, kAllInputs, Same},
                            {"Neg", 1, 1, kAllInputs, Same},
                            {"Abs", 1, 1, kAllInputs, Same},
                            {"Reciprocal", 1, 1, kAllInputs, Same},
                            {"Sign", 1, 1, kNoInputs, Same},
                            {"Identity", 1, 1, kAllInputs, Identity},
                            {"Cast", 1, 1, kAllInputs, Cast},
                            {"CastLike", 2, 2, kFirstInput, Cast},
                            {"Add", 2, 2, kAllInputs, Binary},
                            {"Sub", 2, 2, kAllInputs, Binary},
                            {"Mul", 2, 2, kAllInputs, Binary},
                            {"Div", 2, 2, kAllInputs, Binary},
                            {"Pow", 2, 2, kAllInputs, Pow},
                            {"Max", 1, -1, kAllInputs, Variadic},
                            {"Min", 1, -1, kAllInputs, Variadic},
                            {"Sum", 1, -1, kAllInputs, Variadic},
                            {"Mean", 1, -1, kAllInputs, Variadic},
                            {"Where", 3, 3, kAllInputs & ~kFirstInput, Where}};

}  // namespace

absl::Span<const OnnxOp> ElementwiseOps() { return kRows; }

}  // namespace ebb::model
