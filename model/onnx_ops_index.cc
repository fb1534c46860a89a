// Reading and writing by index, and what looks for positions: gathers, scatters, OneHot, TopK,
// ArgMax, CumSum, Trilu.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

using graph::Attrs;

constexpr uint32_t kDataAndUpdates = 5;

// The first number of an input that must be known.
absl::StatusOr<int64_t> KnownNumber(const ConvertContext& c, size_t i, absl::string_view what) {
  EBB_ASSIGN_OR_RETURN(const Ints numbers, c.KnownInts(i, what));
  if (numbers.size() != 1) return c.Invalid(absl::StrCat(what, " must be one number"));
  return numbers[0];
}

absl::StatusOr<Attrs> AxisAttr(const ConvertContext& c, int64_t fallback) {
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", fallback), c.rank(0)));
  return Attrs{{"axis", axis}};
}

absl::Status GatherElements(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Attrs attrs, AxisAttr(c, 0));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId indices, c.In(1));
  return c.Result("GatherElements", {x, indices}, attrs);
}

absl::Status GatherNd(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId indices, c.In(1));
  return c.Result("GatherND", {x, indices}, {{"batch_dims", c.Int("batch_dims", 0)}});
}

// ScatterElements, its name before opset 11 (Scatter), and ScatterND.
absl::Status Scatter(ConvertContext& c) {
  Attrs attrs;
  if (c.op() != "ScatterND") {
    EBB_ASSIGN_OR_RETURN(attrs, AxisAttr(c, 0));
  }
  attrs.Set("reduction", c.Str("reduction", "none"));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId indices, c.In(1));
  EBB_ASSIGN_OR_RETURN(const ValueId updates, c.In(2));
  return c.Result(c.op() == "ScatterND" ? "ScatterND" : "ScatterElements", {x, indices, updates},
                  std::move(attrs));
}

// [off, on] as two scalars.
absl::StatusOr<ValueId> HotValue(ConvertContext& c, int64_t which) {
  if (const HostTensor* values = c.host(2); values != nullptr) {
    return c.Constant(
        ScalarTensor(values->type.dtype, AsDoubles(*values)[static_cast<size_t>(which)]));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId values, c.In(2));
  EBB_ASSIGN_OR_RETURN(const ValueId one, c.Emit("Slice", {values},
                                                 {{"starts", Ints{which}},
                                                  {"ends", Ints{which + 1}},
                                                  {"axes", Ints{0}},
                                                  {"steps", Ints{1}}}));
  return c.Emit("Reshape", {one}, {{"shape", Ints{}}});
}

// `on` where the index, counted from the end when it is below 0, is the position on the new axis.
absl::Status OneHot(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const HostTensor* known, c.Known(1, "depth"));  // floats too
  if (known->data.empty()) return c.Invalid("depth is empty");
  const int64_t depth = SaturatedInt(FirstAsDouble(*known));
  if (depth < 1) return c.Invalid(absl::StrCat("depth is ", depth, ", it must be at least 1"));
  if (c.shape(2) != Shape{2}) return c.Invalid("values must be the two numbers [off, on]");
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", -1), c.rank(0) + 1));
  EBB_ASSIGN_OR_RETURN(ValueId indices, c.In(0));
  EBB_ASSIGN_OR_RETURN(indices, c.Emit("Cast", {indices}, {{"to", std::string("i64")}}));
  EBB_ASSIGN_OR_RETURN(const ValueId below,
                       c.Emit("Less", {indices, c.Constant(ScalarTensor(DType::kI64, 0))}));
  EBB_ASSIGN_OR_RETURN(
      const ValueId wrapped,
      c.Emit("Add", {indices, c.Constant(ScalarTensor(DType::kI64, static_cast<double>(depth)))}));
  EBB_ASSIGN_OR_RETURN(indices, c.Emit("Where", {below, wrapped, indices}));
  Ints shape(c.shape(0).begin(), c.shape(0).end());
  shape.insert(shape.begin() + axis, 1);
  EBB_ASSIGN_OR_RETURN(indices, c.Emit("Reshape", {indices}, {{"shape", shape}}));
  Shape along(static_cast<size_t>(c.rank(0) - axis + 1), 1);
  along[0] = depth;
  EBB_ASSIGN_OR_RETURN(HostTensor positions, c.Allocate({DType::kI64, along}));
  for (int64_t i = 0; i < depth; ++i) positions.as<int64_t>()[static_cast<size_t>(i)] = i;
  EBB_ASSIGN_OR_RETURN(const ValueId hit,
                       c.Emit("Equal", {indices, c.Constant(std::move(positions))}));
  EBB_ASSIGN_OR_RETURN(const ValueId off, HotValue(c, 0));
  EBB_ASSIGN_OR_RETURN(const ValueId on, HotValue(c, 1));
  return c.Result("Where", {hit, on, off});
}

absl::Status CumSum(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(int64_t axis, KnownNumber(c, 1, "axis"));
  EBB_ASSIGN_OR_RETURN(axis, NormalAxis(c, axis, c.rank(0)));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("CumSum", {x},
                  {{"axis", axis},
                   {"exclusive", int64_t{c.Int("exclusive", 0) != 0}},
                   {"reverse", int64_t{c.Int("reverse", 0) != 0}}});
}

absl::Status TopK(ConvertContext& c) {
  int64_t k = c.Int("k", -1);
  EBB_RETURN_IF_ERROR(c.CheckSpelling("k", 1, 10));
  if (c.opset() >= 10) {
    EBB_ASSIGN_OR_RETURN(k, KnownNumber(c, 1, "K"));
  }
  EBB_ASSIGN_OR_RETURN(Attrs attrs, AxisAttr(c, -1));
  attrs.Set("k", k);
  attrs.Set("largest", int64_t{c.Int("largest", 1) != 0});
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs, c.EmitAll("TopK", {x}, attrs));
  c.SetOutput(0, outputs[0]);
  c.SetOutput(1, outputs[1]);
  return absl::OkStatus();
}

absl::Status Arg(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(Attrs attrs, AxisAttr(c, 0));
  attrs.Set("keepdims", int64_t{c.Int("keepdims", 1) != 0});
  attrs.Set("last", int64_t{c.Int("select_last_index", 0) != 0});
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result(c.op(), {x}, std::move(attrs));
}

// One triangle of the last two axes, the rest zero.
absl::Status Trilu(ConvertContext& c) {
  if (c.rank(0) < 2) return c.Invalid("a matrix is needed");
  int64_t k = 0;
  if (c.Has(1)) {
    EBB_ASSIGN_OR_RETURN(k, KnownNumber(c, 1, "k"));
  }
  const bool upper = c.Int("upper", 1) != 0;
  const Shape matrix(c.shape(0).end() - 2, c.shape(0).end());
  k = std::clamp(k, -matrix[0], matrix[1]);  // further off than that is all or nothing
  EBB_ASSIGN_OR_RETURN(HostTensor mask, c.Allocate({DType::kBool, matrix}));
  auto keep = mask.as<uint8_t>();
  for (int64_t row = 0, i = 0; row < matrix[0]; ++row) {
    for (int64_t column = 0; column < matrix[1]; ++column, ++i) {
      keep[static_cast<size_t>(i)] = upper ? column - row >= k : column - row <= k;
    }
  }
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  const ValueId kept = c.Constant(std::move(mask));
  return c.Result("Where", {kept, x, c.Constant(ScalarTensor(c.type(0).dtype, 0))});
}

constexpr OnnxOp kRows[] = {{"GatherElements", 2, 2, kFirstInput, GatherElements},
                            {"GatherND", 2, 2, kFirstInput, GatherNd},
                            {"ScatterElements", 3, 3, kDataAndUpdates, Scatter},
                            {"Scatter", 3, 3, kDataAndUpdates, Scatter},
                            {"ScatterND", 3, 3, kDataAndUpdates, Scatter},
                            {"OneHot", 3, 3, kNoInputs, OneHot},
                            {"CumSum", 2, 2, kFirstInput, CumSum},
                            {"TopK", 1, 2, kFirstInput, TopK},
                            {"ArgMax", 1, 1, kNoInputs, Arg},
                            {"ArgMin", 1, 1, kNoInputs, Arg},
                            {"Trilu", 1, 2, kFirstInput, Trilu}};

}  // namespace

absl::Span<const OnnxOp> IndexOps() { return kRows; }

}  // namespace ebb::model
