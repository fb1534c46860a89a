// Ops that move elements: views, transposes, slices, padding, gathering.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

Ints ToInts(const Shape& shape) { return Ints(shape.begin(), shape.end()); }

absl::Status Reshape(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Shape shape, ReshapedShape(c));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("Reshape", {x}, {{"shape", ToInts(shape)}});
}

absl::Status Transpose(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(Ints perm, TransposePerm(c));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  if (std::is_sorted(perm.begin(), perm.end())) {
    c.Alias(0);
  } else {
    c.DeferTranspose(x, std::move(perm));
  }
  return absl::OkStatus();
}

absl::Status Concat(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", 0), c.rank(0)));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < c.num_inputs(); ++i) {
    EBB_ASSIGN_OR_RETURN(const ValueId part, c.In(i));
    parts.push_back(part);
  }
  return c.Result("Concat", std::move(parts), {{"axis", axis}});
}

absl::Status Slice(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const SliceSpec spec, ReadSlice(c));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result(
      "Slice", {x},
      {{"starts", spec.starts}, {"ends", spec.ends}, {"axes", spec.axes}, {"steps", spec.steps}});
}

absl::Status Split(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const SplitSpec spec, ReadSplit(c));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  int64_t start = 0;
  for (size_t i = 0; i < spec.sizes.size(); ++i) {
    const int64_t end = start + spec.sizes[i];
    if (c.Wants(i)) {
      EBB_ASSIGN_OR_RETURN(const ValueId part, c.Emit("Slice", {x},
                                                      {{"starts", Ints{start}},
                                                       {"ends", Ints{end}},
                                                       {"axes", Ints{spec.axis}},
                                                       {"steps", Ints{1}}}));
      c.SetOutput(i, part);
    }
    start = end;
  }
  return absl::OkStatus();
}

absl::Status Pad(ConvertContext& c) {
  const std::string mode = c.Str("mode", "constant");
  const bool constant = mode == "constant";
  if (!constant && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return c.Unimplemented(absl::StrCat("mode '", mode, "' is not supported"));
  }
  EBB_ASSIGN_OR_RETURN(const Ints given, c.AttrOrInput("pads", 1, 11));
  EBB_RETURN_IF_ERROR(c.CheckSpelling("value", 2, 11));
  double value = c.Float("value", 0);
  if (c.opset() >= 11 && c.Has(2)) {
    EBB_ASSIGN_OR_RETURN(const HostTensor* constant, c.Known(2, "constant_value"));
    if (constant->data.empty()) return c.Invalid("constant_value is empty");
    value = FirstAsDouble(*constant);
  }
  EBB_ASSIGN_OR_RETURN(Ints axes, c.AttrOrInput("axes", 3, 18));
  const auto rank = static_cast<size_t>(c.rank(0));
  if (!c.Has(3)) {
    for (size_t i = 0; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (given.size() != 2 * axes.size()) return c.Invalid("pads do not fit the axes");
  Ints pads(2 * rank, 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, axes[i], c.rank(0)));
    for (size_t side = 0; side < 2; ++side) {
      const int64_t pad = given[i + side * axes.size()];
      if (pad < -(int64_t{1} << 40) || pad > int64_t{1} << 40)
        return c.Invalid("a pad is too large");
      pads[static_cast<size_t>(axis) + side * rank] = pad;
    }
  }
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  if (!constant) {
    EBB_ASSIGN_OR_RETURN(const ValueId padded, PadByInput(c, mode, pads, x));
    padded == x ? c.Alias(0) : c.SetOutput(0, padded);
    return absl::OkStatus();
  }
  return c.Result("Pad", {x},
                  {{"pads", pads}, {"value", value}, {"mode", std::string("constant")}});
}

absl::Status Gather(ConvertContext& c) {
  if (c.rank(0) == 0) return c.Invalid("cannot gather from a scalar");
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", 0), c.rank(0)));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  const HostTensor* indices = c.host(1);
  if (indices == nullptr || c.rank(1) != 0 || graph::IsFloat(indices->type.dtype)) {
    EBB_ASSIGN_OR_RETURN(const ValueId at, c.In(1));
    return c.Result("Gather", {x, at}, {{"axis", axis}});
  }
  // One fixed index is a slice, whose gradient needs no scatter.
  const int64_t dim = c.shape(0)[static_cast<size_t>(axis)];
  int64_t index = AsInts(*indices)[0];
  if (index < -dim || index >= dim) return c.Invalid("the index is out of range");
  if (index < 0) index += dim;
  EBB_ASSIGN_OR_RETURN(const ValueId row, c.Emit("Slice", {x},
                                                 {{"starts", Ints{index}},
                                                  {"ends", Ints{index + 1}},
                                                  {"axes", Ints{axis}},
                                                  {"steps", Ints{1}}}));
  Shape shape = c.shape(0);
  shape.erase(shape.begin() + axis);
  return c.Result("Reshape", {row}, {{"shape", ToInts(shape)}});
}

absl::Status Expand(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Shape shape, ExpandedShape(c));
  if (shape == c.shape(0)) {
    c.Alias(0);
    return absl::OkStatus();
  }
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("Expand", {x}, {{"shape", ToInts(shape)}});
}

// One repeated axis at a time: [.., d, ..] -> [.., 1, d, ..] -> [.., r, d, ..] -> [.., r d, ..].
absl::Status Tile(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints repeats, TileRepeats(c));
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  bool changed = false;
  for (size_t axis = 0; axis < repeats.size(); ++axis) {
    if (repeats[axis] == 1) continue;
    if (c.rank(0) >= 8) return c.Unimplemented("tensors of rank 8 cannot be tiled");
    changed = true;
    const Shape shape = c.TypeOf(x).shape;
    Ints split = ToInts(shape);
    split.insert(split.begin() + static_cast<int64_t>(axis), 1);
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Reshape", {x}, {{"shape", split}}));
    split[axis] = repeats[axis];
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Expand", {x}, {{"shape", split}}));
    Ints joined = ToInts(shape);
    joined[axis] *= repeats[axis];
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Reshape", {x}, {{"shape", joined}}));
  }
  if (changed) {
    c.SetOutput(0, x);
  } else {
    c.Alias(0);
  }
  return absl::OkStatus();
}

constexpr OnnxOp kRows[] = {{"Reshape", 1, 2, kFirstInput, Reshape},
                            {"Flatten", 1, 1, kFirstInput, Reshape},
                            {"Squeeze", 1, 2, kFirstInput, Reshape},
                            {"Unsqueeze", 1, 2, kFirstInput, Reshape},
                            {"Transpose", 1, 1, kFirstInput, Transpose},
                            {"Concat", 1, -1, kAllInputs, Concat},
                            {"Slice", 1, 5, kFirstInput, Slice},
                            {"Split", 1, 2, kFirstInput, Split},
                            {"Pad", 1, 4, kFirstInput, Pad},
                            {"Gather", 2, 2, kFirstInput, Gather},
                            {"Expand", 2, 2, kFirstInput, Expand},
                            {"Tile", 2, 2, kFirstInput, Tile}};

}  // namespace

absl::Span<const OnnxOp> MovementOps() { return kRows; }

}  // namespace ebb::model
