// Host evaluation of arithmetic, comparison, logic and reductions. Integer arithmetic wraps.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/host_fold.h"
#include "model/onnx_shapes.h"
#include "model/onnx_tensor.h"

namespace ebb::model {
namespace {

using Tensors = std::vector<HostTensor>;

absl::StatusOr<HostTensor> Make(const NodeView& node, HostBudget& budget, DType dtype,
                                Shape shape) {
  auto out = budget.Allocate({dtype, std::move(shape)});
  if (!out.ok()) return node.Invalid(out.status().message());
  return out;
}

template <class T>
T Wrap(uint64_t value) {
  return static_cast<T>(value);
}

// How each binary op treats two elements of one type.
struct AddFn {
  template <class T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a + b;
    else
      return Wrap<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct SubFn {
  template <class T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a - b;
    else
      return Wrap<T>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};
struct MulFn {
  template <class T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return a * b;
    else
      return Wrap<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};
struct DivFn {
  template <class T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return a / b;
    } else {
      if (b == 0) return 0;  // undefined in ONNX
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return SubFn::Do<T>(0, a);
      }
      return static_cast<T>(a / b);
    }
  }
};
struct ModFn {  // the sign of the divisor, as Python
  template <class T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      const T rest = std::fmod(a, b);
      return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
        const T rest = static_cast<T>(a % b);
        return rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
      }
      return static_cast<T>(a % b);
    }
  }
};
struct FmodFn {  // the sign of the dividend, as C
  template <class T>
  static T Do(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      return std::fmod(a, b);
    } else {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return 0;
      }
      return static_cast<T>(a % b);
    }
  }
};
struct MinFn {
  template <class T>
  static T Do(T a, T b) {
    return b < a ? b : a;
  }
};
struct MaxFn {
  template <class T>
  static T Do(T a, T b) {
    return a < b ? b : a;
  }
};
struct EqualFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return a == b;
  }
};
struct LessFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return a < b;
  }
};
struct LessEqualFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return a <= b;
  }
};
struct GreaterFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return a > b;
  }
};
struct GreaterEqualFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return a >= b;
  }
};
struct AndFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return a != 0 && b != 0;
  }
};
struct OrFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return a != 0 || b != 0;
  }
};
struct XorFn {
  template <class T>
  static uint8_t Do(T a, T b) {
    return (a != 0) != (b != 0);
  }
};

template <class Fn>
absl::StatusOr<HostTensor> Apply(const NodeView& node, HostBudget& budget, const HostTensor& a,
                                 const HostTensor& b) {
  const auto shape = graph::BroadcastShapes(a.type.shape, b.type.shape);
  if (!shape.has_value() || a.type.dtype != b.type.dtype) {
    return node.Invalid(absl::StrCat("operands ", graph::ToString(a.type), " and ",
                                     graph::ToString(b.type), " do not fit"));
  }
  return VisitDType(a.type.dtype, [&](auto zero) -> absl::StatusOr<HostTensor> {
    using T = decltype(zero);
    using R = decltype(Fn::template Do<T>(zero, zero));
    const bool logical = !std::is_same_v<R, T> || std::is_same_v<Fn, EqualFn> ||
                         std::is_same_v<Fn, AndFn> || std::is_same_v<Fn, OrFn> ||
                         std::is_same_v<Fn, XorFn> || std::is_same_v<Fn, LessFn> ||
                         std::is_same_v<Fn, LessEqualFn> || std::is_same_v<Fn, GreaterFn> ||
                         std::is_same_v<Fn, GreaterEqualFn>;
    EBB_ASSIGN_OR_RETURN(HostTensor out,
                         Make(node, budget, logical ? DType::kBool : a.type.dtype, *shape));
    auto result = out.as<R>();
    const auto lhs = a.as<T>();
    const auto rhs = b.as<T>();
    // First gather a's elements, then combine with b's.
    std::vector<T> left(result.size());
    ForEachOffset(*shape, BroadcastStrides(a.type.shape, *shape), 0, [&](int64_t i, int64_t at) {
      left[static_cast<size_t>(i)] = lhs[static_cast<size_t>(at)];
    });
    ForEachOffset(*shape, BroadcastStrides(b.type.shape, *shape), 0, [&](int64_t i, int64_t at) {
      result[static_cast<size_t>(i)] =
          Fn::template Do<T>(left[static_cast<size_t>(i)], rhs[static_cast<size_t>(at)]);
    });
    return out;
  });
}

template <class Fn>
absl::StatusOr<Tensors> FoldBinary(const NodeView& node, HostBudget& budget) {
  EBB_ASSIGN_OR_RETURN(HostTensor out, Apply<Fn>(node, budget, *node.host(0), *node.host(1)));
  Tensors list;
  list.push_back(std::move(out));
  return list;
}

absl::StatusOr<Tensors> FoldMod(const NodeView& node, HostBudget& budget) {
  return node.Int("fmod", 0) != 0 ? FoldBinary<FmodFn>(node, budget)
                                  : FoldBinary<ModFn>(node, budget);
}

template <class Fn>
absl::StatusOr<Tensors> FoldVariadic(const NodeView& node, HostBudget& budget) {
  Tensors list;
  list.push_back(*node.host(0));
  for (size_t i = 1; i < node.num_inputs(); ++i) {
    if (node.host(i) == nullptr) return node.Invalid("an operand is missing");
    EBB_ASSIGN_OR_RETURN(list[0], Apply<Fn>(node, budget, list[0], *node.host(i)));
  }
  return list;
}

absl::StatusOr<Tensors> FoldClip(const NodeView& node, HostBudget& budget) {
  EBB_RETURN_IF_ERROR(node.CheckSpelling("min", 1, 11));
  EBB_RETURN_IF_ERROR(node.CheckSpelling("max", 2, 11));
  Tensors list;
  list.push_back(*node.host(0));
  const auto bound = [&](const char* name, size_t i) -> std::optional<HostTensor> {
    if (node.Has(i)) return *node.host(i);
    if (!node.HasAttr(name)) return std::nullopt;
    return ScalarTensor(node.type(0).dtype, node.Float(name, 0));
  };
  if (const auto min = bound("min", 1)) {
    EBB_ASSIGN_OR_RETURN(list[0], Apply<MaxFn>(node, budget, list[0], *min));
  }
  if (const auto max = bound("max", 2)) {
    EBB_ASSIGN_OR_RETURN(list[0], Apply<MinFn>(node, budget, list[0], *max));
  }
  return list;
}

// The elements of `from` converted to `to`'s type.
void Convert(const HostTensor& from, HostTensor* to) {
  VisitDType(from.type.dtype, [&](auto from_zero) {
    using F = decltype(from_zero);
    const auto in = from.as<F>();
    VisitDType(to->type.dtype, [&](auto to_zero) {
      using T = decltype(to_zero);
      auto out = to->as<T>();
      for (size_t i = 0; i < in.size(); ++i) {
        if (to->type.dtype == DType::kBool) {
          out[i] = static_cast<T>(in[i] != F{} ? 1 : 0);
        } else if constexpr (std::is_floating_point_v<F> && !std::is_floating_point_v<T>) {
          out[i] = static_cast<T>(SaturatedInt(in[i]));
        } else {
          out[i] = static_cast<T>(in[i]);
        }
      }
    });
  });
}

absl::StatusOr<Tensors> FoldCast(const NodeView& node, HostBudget& budget) {
  DType to = node.num_inputs() > 1 ? node.type(1).dtype : DType::kF32;
  if (node.op() == "Cast") {
    auto dtype = DTypeFromOnnx(static_cast<int>(node.Int("to", 0)));
    if (!dtype.ok()) return Annotate(dtype.status(), NodeLabel(node.proto(), node.opset()));
    to = *dtype;
  }
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, to, node.shape(0)));
  Convert(*node.host(0), &list[0]);
  return list;
}

absl::StatusOr<Tensors> FoldPow(const NodeView& node, HostBudget& budget) {
  const auto shape = graph::BroadcastShapes(node.shape(0), node.shape(1));
  if (!shape.has_value()) return node.Invalid("the operands' shapes do not fit");
  const std::vector<double> a = AsDoubles(*node.host(0));
  const std::vector<double> b = AsDoubles(*node.host(1));
  HostTensor powers = HostTensor::Zeros({DType::kF64, {}});
  EBB_ASSIGN_OR_RETURN(powers, Make(node, budget, DType::kF64, *shape));
  auto out = powers.as<double>();
  ForEachOffset(*shape, BroadcastStrides(node.shape(0), *shape), 0, [&](int64_t i, int64_t at) {
    out[static_cast<size_t>(i)] = a[static_cast<size_t>(at)];
  });
  ForEachOffset(*shape, BroadcastStrides(node.shape(1), *shape), 0, [&](int64_t i, int64_t at) {
    auto& value = out[static_cast<size_t>(i)];
    value = std::pow(value, b[static_cast<size_t>(at)]);
  });
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, node.type(0).dtype, *shape));
  Convert(powers, &list[0]);
  return list;
}

// Reductions in double: integers up to 2^53, which shape arithmetic never passes.
struct ReduceRow {
  absl::string_view op;
  double (*combine)(double, double);
  double empty;
};
constexpr ReduceRow kReduce[] = {{"ReduceSum", [](double a, double b) { return a + b; }, 0},
                                 {"ReduceMean", [](double a, double b) { return a + b; }, 0},
                                 {"ReduceProd", [](double a, double b) { return a * b; }, 1},
                                 {"ReduceMax", [](double a, double b) { return a < b ? b : a; },
                                  -std::numeric_limits<double>::infinity()},
                                 {"ReduceMin", [](double a, double b) { return b < a ? b : a; },
                                  std::numeric_limits<double>::infinity()}};

absl::StatusOr<Tensors> FoldReduce(const NodeView& node, HostBudget& budget) {
  const auto* row = std::find_if(std::begin(kReduce), std::end(kReduce),
                                 [&](const ReduceRow& r) { return r.op == node.op(); });
  EBB_ASSIGN_OR_RETURN(const Ints axes, ReducedAxes(node));
  Shape kept = node.shape(0);
  for (int64_t axis : axes) kept[static_cast<size_t>(axis)] = 1;
  HostTensor sums = HostTensor::Zeros({DType::kF64, {}});
  EBB_ASSIGN_OR_RETURN(sums, Make(node, budget, DType::kF64, kept));
  auto out = sums.as<double>();
  std::fill(out.begin(), out.end(), row->empty);
  const std::vector<double> in = AsDoubles(*node.host(0));
  ForEachOffset(node.shape(0), BroadcastStrides(kept, node.shape(0)), 0,
                [&](int64_t i, int64_t at) {
                  auto& sum = out[static_cast<size_t>(at)];
                  sum = row->combine(sum, in[static_cast<size_t>(i)]);
                });
  if (node.op() == "ReduceMean" && !out.empty()) {
    const double count = static_cast<double>(in.size()) / static_cast<double>(out.size());
    for (double& sum : out) sum /= count;
  }
  if (node.Int("keepdims", 1) == 0) {
    Shape dropped;
    for (int64_t i = 0; i < node.rank(0); ++i) {
      if (!std::binary_search(axes.begin(), axes.end(), i)) {
        dropped.push_back(kept[static_cast<size_t>(i)]);
      }
    }
    sums.type.shape = kept = dropped;
  }
  Tensors list(1);
  EBB_ASSIGN_OR_RETURN(list[0], Make(node, budget, node.type(0).dtype, kept));
  Convert(sums, &list[0]);
  return list;
}

constexpr FoldRow kRows[] = {{"Add", FoldBinary<AddFn>, 2, 2},
                             {"Sub", FoldBinary<SubFn>, 2, 2},
                             {"Mul", FoldBinary<MulFn>, 2, 2},
                             {"Div", FoldBinary<DivFn>, 2, 2},
                             {"Mod", FoldMod, 2, 2},
                             {"Equal", FoldBinary<EqualFn>, 2, 2},
                             {"Less", FoldBinary<LessFn>, 2, 2},
                             {"LessOrEqual", FoldBinary<LessEqualFn>, 2, 2},
                             {"Greater", FoldBinary<GreaterFn>, 2, 2},
                             {"GreaterOrEqual", FoldBinary<GreaterEqualFn>, 2, 2},
                             {"And", FoldBinary<AndFn>, 2, 2},
                             {"Or", FoldBinary<OrFn>, 2, 2},
                             {"Xor", FoldBinary<XorFn>, 2, 2},
                             {"Min", FoldVariadic<MinFn>, 1, -1},
                             {"Max", FoldVariadic<MaxFn>, 1, -1},
                             {"Sum", FoldVariadic<AddFn>, 1, -1},
                             {"Pow", FoldPow, 2, 2},
                             {"Cast", FoldCast, 1, 1},
                             {"Clip", FoldClip, 1, 3},
                             {"CastLike", FoldCast, 2, 2},
                             {"ReduceSum", FoldReduce, 1, 2},
                             {"ReduceMean", FoldReduce, 1, 2},
                             {"ReduceProd", FoldReduce, 1, 2},
                             {"ReduceMax", FoldReduce, 1, 2},
                             {"ReduceMin", FoldReduce, 1, 2}};

}  // namespace

absl::Span<const FoldRow> FoldArith() { return kRows; }

}  // namespace ebb::model
