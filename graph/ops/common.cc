#include "graph/ops/common.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_join.h"

namespace ebb::graph::ops {
namespace {

absl::string_view Needed(Kind kind) {
  switch (kind) {
    case Kind::kAny:
      return "any type";
    case Kind::kFloat:
      return "f32 or f64";
    case Kind::kNumber:
      return "f32, f64, i32 or i64";
    case Kind::kIndex:
      return "i32 or i64";
  }
  return "";
}

bool Fits(DType dtype, Kind kind) {
  const bool index = dtype == DType::kI32 || dtype == DType::kI64;
  switch (kind) {
    case Kind::kAny:
      return true;
    case Kind::kFloat:
      return IsFloat(dtype);
    case Kind::kNumber:
      return IsFloat(dtype) || index;
    case Kind::kIndex:
      return index;
  }
  return false;
}

absl::string_view TypeOf(const AttrValue& value) {
  if (std::holds_alternative<int64_t>(value)) return "an int";
  if (std::holds_alternative<double>(value)) return "a float";
  if (std::holds_alternative<Ints>(value)) return "ints";
  return "a string";
}

}  // namespace

absl::Status CheckShape(absl::string_view what, absl::Span<const int64_t> shape) {
  if (shape.size() > kMaxRank) {
    return Invalid(what, " has ", shape.size(), " dimensions, at most ", kMaxRank, " are possible");
  }
  int64_t elements = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return Invalid(what, " has the dimension ", dim, ", dimensions must be bound and >= 0");
    }
    if (dim > kMaxElements / elements) {
      return Invalid(what, " [", absl::StrJoin(shape, ","), "] is too large, at most 2^48 elements",
                     " are possible");
    }
    elements *= std::max<int64_t>(dim, 1);
  }
  return absl::OkStatus();
}

absl::StatusOr<const TensorType*> Optional(const ShapeContext& context, size_t i,
                                           absl::string_view name, Kind kind) {
  if (i >= context.inputs.size() || context.inputs[i] == nullptr) return nullptr;
  const TensorType* type = context.inputs[i];
  EBB_RETURN_IF_ERROR(CheckShape(name, type->shape));
  if (!Fits(type->dtype, kind)) {
    return Invalid(name, " is ", ToString(*type), ", needs ", Needed(kind));
  }
  return type;
}

absl::StatusOr<const TensorType*> Required(const ShapeContext& context, size_t i,
                                           absl::string_view name, Kind kind) {
  EBB_ASSIGN_OR_RETURN(const TensorType* type, Optional(context, i, name, kind));
  if (type == nullptr) return Invalid("input ", i, " (", name, ") is missing");
  return type;
}

absl::Status Exactly(const ShapeContext& context, size_t i, absl::string_view name,
                     const TensorType& want) {
  EBB_ASSIGN_OR_RETURN(const TensorType* type, Required(context, i, name, Kind::kAny));
  if (*type != want) return Invalid(name, " is ", ToString(*type), ", needs ", ToString(want));
  return absl::OkStatus();
}

absl::Status CheckRank(absl::string_view name, const TensorType& type, size_t min, size_t max) {
  if (type.shape.size() >= min && type.shape.size() <= max) return absl::OkStatus();
  if (min == max) return Invalid(name, " is ", ToString(type), ", needs rank ", min);
  return Invalid(name, " is ", ToString(type), ", needs a rank from ", min, " to ", max);
}

absl::StatusOr<Types> Outputs(Types types) {
  for (const TensorType& type : types) EBB_RETURN_IF_ERROR(CheckShape("the output", type.shape));
  return types;
}

template <class T>
const T* AttrReader::Get(absl::string_view name, absl::string_view type, bool required) {
  known_.push_back(name);
  const auto it = attrs_.map().find(name);
  if (it == attrs_.map().end()) {
    Check(!required, "the attribute ", name, " (", type, ") is missing");
    return nullptr;
  }
  const T* value = std::get_if<T>(&it->second);
  Check(value != nullptr, "the attribute ", name, " is ", TypeOf(it->second), ", needs ", type);
  return value;
}

int64_t AttrReader::Int(absl::string_view name, int64_t min, int64_t max,
                        std::optional<int64_t> fallback) {
  const int64_t* value = Get<int64_t>(name, "an int", !fallback.has_value());
  if (value == nullptr) return fallback.value_or(min);
  Check(*value >= min && *value <= max, name, " is ", *value, ", needs to be from ", min, " to ",
        max);
  return std::clamp(*value, min, max);
}

std::optional<double> AttrReader::GetFloat(absl::string_view name, bool required) {
  const auto it = attrs_.map().find(name);
  if (it != attrs_.map().end() && std::holds_alternative<int64_t>(it->second)) {
    known_.push_back(name);
    return static_cast<double>(std::get<int64_t>(it->second));
  }
  const double* value = Get<double>(name, "a float", required);
  return value == nullptr ? std::nullopt : std::optional<double>(*value);
}

double AttrReader::Float(absl::string_view name, double min, double max,
                         std::optional<double> fallback) {
  const std::optional<double> value = GetFloat(name, !fallback.has_value());
  if (!value) return fallback.value_or(min);
  Check(*value >= min && *value <= max, name, " is ", *value, ", needs to be from ", min, " to ",
        max);
  return *value;
}

double AttrReader::Float(absl::string_view name, std::optional<double> fallback) {
  const std::optional<double> value = GetFloat(name, !fallback.has_value());
  if (!value) return fallback.value_or(0);
  Check(std::isfinite(*value), name, " is ", *value, ", needs to be finite");
  return *value;
}

void AttrReader::Bound(absl::string_view name) {
  const std::optional<double> value = GetFloat(name, false);
  Check(!value || !std::isnan(*value), name, " is not a number");
}

Ints AttrReader::List(absl::string_view name, size_t length, int64_t min, int64_t max) {
  const Ints* values = Get<Ints>(name, "ints", true);
  if (values == nullptr) return Ints(length, min);
  if (values->size() != length) {
    Check(false, name, " has ", values->size(), " ints, needs ", length);
    return Ints(length, min);
  }
  for (const int64_t value : *values) {
    if (value >= min && value <= max) continue;
    Check(false, name, " has ", value, ", needs values from ", min, " to ", max);
    return Ints(length, min);  // callers compute with what they get
  }
  return *values;
}

Ints AttrReader::List(absl::string_view name) {
  const Ints* values = Get<Ints>(name, "ints", true);
  if (values == nullptr) return {};
  Check(values->size() <= kMaxRank, name, " has ", values->size(), " ints, at most ", kMaxRank,
        " are possible");
  return *values;
}

Shape AttrReader::Dims(absl::string_view name) {
  const Ints dims = List(name);
  if (status_.ok()) status_ = CheckShape(name, dims);
  return Shape(dims.begin(), dims.end());
}

Ints AttrReader::Axes(absl::string_view name, size_t rank) {
  Ints axes = List(name);
  for (size_t i = 0; i < axes.size(); ++i) {
    Check(axes[i] >= 0 && axes[i] < static_cast<int64_t>(rank), name, " has the axis ", axes[i],
          " of a tensor of rank ", rank);
    Check(i == 0 || axes[i - 1] < axes[i], name, " must be ascending, has ", axes[i], " at ", i);
  }
  return axes;
}

size_t AttrReader::Axis(absl::string_view name, size_t rank) {
  if (rank == 0) {
    Get<int64_t>(name, "an int", true);
    Check(false, name, " is given for a scalar, which has no axes");
    return 0;
  }
  return static_cast<size_t>(Int(name, 0, static_cast<int64_t>(rank) - 1));
}

std::string AttrReader::Word(absl::string_view name,
                             std::initializer_list<absl::string_view> allowed,
                             std::optional<absl::string_view> fallback) {
  const std::string* value = Get<std::string>(name, "a string", !fallback.has_value());
  if (value == nullptr) return std::string(fallback.value_or(""));
  Check(std::find(allowed.begin(), allowed.end(), *value) != allowed.end(), name, " is \"", *value,
        "\", needs one of: ", absl::StrJoin(allowed, ", "));
  return *value;
}

absl::Status AttrReader::Finish() const {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : attrs_.map()) {
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      return Invalid("there is no attribute ", name,
                     "; known: ", known_.empty() ? "none" : absl::StrJoin(known_, ", "));
    }
  }
  return absl::OkStatus();
}

absl::Status ZeroGradient(GradContext&) { return absl::OkStatus(); }

absl::StatusOr<Types> SameTypeShape(const ShapeContext& context, Kind kind, ReadAttrs read) {
  AttrReader attrs(context.attrs);
  read(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "input 0", kind));
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    EBB_RETURN_IF_ERROR(Exactly(context, i, absl::StrCat("input ", i), *x));
  }
  return Outputs({*x});
}

bool Wants(const GradContext& grad, size_t input) {
  const std::vector<ValueId>& inputs = grad.node().inputs;
  return input < inputs.size() && inputs[input].valid() && grad.needs(input);
}

absl::StatusOr<ValueId> SummedTo(GradContext& grad, ValueId value, const Shape& shape) {
  if (grad.type(value).shape == shape) return value;
  return grad.Emit("SumTo", {value}, {{"shape", ToInts(shape)}});
}

absl::Status SetGradSummed(GradContext& grad, size_t input, ValueId value) {
  const Shape& want = grad.type(grad.node().inputs[input]).shape;
  EBB_ASSIGN_OR_RETURN(value, SummedTo(grad, value, want));
  grad.SetGrad(input, value);
  return absl::OkStatus();
}

absl::StatusOr<ValueId> Reshaped(GradContext& grad, ValueId value, const Shape& shape) {
  if (grad.type(value).shape == shape) return value;
  return grad.Emit("Reshape", {value}, {{"shape", ToInts(shape)}});
}

namespace {
absl::Status EmitNamedGrad(GradContext& grad, ValueId saved) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(const ValueId dx, grad.Emit(absl::StrCat(grad.node().op->name, "Grad"),
                                                   {grad.dy(0), saved}, grad.node().attrs));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}
}  // namespace

absl::Status GradFromInput(GradContext& grad) { return EmitNamedGrad(grad, grad.node().inputs[0]); }
absl::Status GradFromOutput(GradContext& grad) {
  return EmitNamedGrad(grad, grad.node().outputs[0]);
}

absl::Status RefuseGradOf(const GradContext& grad, size_t output, absl::string_view name) {
  if (!grad.dy(output).valid()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(grad.node().op->name, " has no gradient through ",
                                               name, ", only through its first output"));
}

Flops Product(std::initializer_list<int64_t> factors) {
  int64_t product = 1;
  for (const int64_t factor : factors) {
    if (__builtin_mul_overflow(product, factor, &product)) {
      return Flops(std::numeric_limits<int64_t>::max());
    }
  }
  return Flops(product);
}

int64_t InputElements(const Graph& graph, const Node& node, size_t input) {
  return NumElements(graph.value(node.inputs[input]).type.shape);
}

int64_t OutputElements(const Graph& graph, const Node& node, size_t output) {
  return NumElements(graph.value(node.outputs[output]).type.shape);
}

}  // namespace ebb::graph::ops
