// Ops that resample or rearrange positions: Resize, Upsample, padding that repeats the input,
// DepthToSpace and SpaceToDepth.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_resize.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 31;

// x with axis `axis` read at `positions`.
absl::StatusOr<ValueId> ReadAt(ConvertContext& c, ValueId x, size_t axis, const Ints& positions) {
  EBB_ASSIGN_OR_RETURN(HostTensor indices,
                       c.Allocate({DType::kI64, {static_cast<int64_t>(positions.size())}}));
  std::copy(positions.begin(), positions.end(), indices.as<int64_t>().begin());
  return c.Emit("Gather", {x, c.Constant(std::move(indices))},
                {{"axis", static_cast<int64_t>(axis)}});
}

// ---- Resize.

struct ResizePlan {
  std::vector<ResizeAxis> axes;  // one an axis of x
};

// Numbers an axis of x, as floats; those of unnamed axes are `fallback`.
absl::StatusOr<std::vector<double>> PerAxis(const ConvertContext& c, size_t input,
                                            absl::string_view what, const Ints& axes,
                                            std::vector<double> fallback) {
  EBB_ASSIGN_OR_RETURN(const HostTensor* tensor, c.Known(input, what));
  const std::vector<double> values = AsDoubles(*tensor);
  if (values.size() != axes.size()) {
    return c.Invalid(
        absl::StrCat(what, " has ", values.size(), " numbers for ", axes.size(), " axes"));
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    if (!(values[i] > 0 && values[i] < static_cast<double>(kMaxPositions))) {
      return c.Invalid(absl::StrCat(what, " has ", values[i], ", it must be above 0"));
    }
    fallback[static_cast<size_t>(axes[i])] = values[i];
  }
  return fallback;
}

// Fills in `out` and `scale` of each axis from the sizes or scales that the node gives.
absl::Status ReadExtents(const ConvertContext& c, const Ints& axes, ResizePlan* plan) {
  const bool upsample = c.op() == "Upsample";
  const size_t scales_input = upsample || c.opset() < 11 ? 1 : 2;
  const Shape& shape = c.shape(0);
  const size_t rank = shape.size();
  std::vector<double> scales(rank, 1.0), sizes(shape.begin(), shape.end());
  const bool by_size = c.Has(3) && graph::NumElements(c.shape(3)) > 0;
  if (upsample && c.opset() < 9) {
    const std::vector<float> given = c.Floats("scales");
    if (given.size() != rank) return c.Invalid("scales must have one number an axis");
    std::copy(given.begin(), given.end(), scales.begin());
  } else if (by_size) {
    EBB_ASSIGN_OR_RETURN(sizes, PerAxis(c, 3, "sizes", axes, sizes));
    if (c.Str("keep_aspect_ratio_policy", "stretch") != "stretch") {
      return c.Unimplemented("only keep_aspect_ratio_policy 'stretch' is supported");
    }
  } else {
    EBB_ASSIGN_OR_RETURN(scales, PerAxis(c, scales_input, "scales", axes, scales));
  }
  for (size_t d = 0; d < rank; ++d) {
    ResizeAxis& axis = plan->axes[d];
    axis.in = shape[d];
    const auto in = static_cast<double>(axis.in);
    if (!(scales[d] > 0)) return c.Invalid("scales must be above 0");
    if (axis.in < 1) return c.Invalid("there is nothing to resize");
    const double out = by_size ? sizes[d] : std::floor(in * scales[d]);
    if (!(out >= 1 && out < static_cast<double>(kMaxPositions))) {
      return c.Invalid(absl::StrCat("axis ", d, " would have ", out, " positions"));
    }
    axis.out = static_cast<int64_t>(out);
    axis.scale = by_size ? out / in : scales[d];
  }
  return absl::OkStatus();
}

absl::StatusOr<ResizePlan> ReadResize(const ConvertContext& c) {
  ResizeAxis common;
  const bool old = c.op() == "Upsample" || c.opset() < 11;
  common.mode = c.Str("mode", "nearest");
  if (common.mode == "bilinear" || common.mode == "trilinear") common.mode = "linear";
  common.coordinates = old ? "asymmetric" : c.Str("coordinate_transformation_mode", "half_pixel");
  common.nearest_mode = old ? "floor" : c.Str("nearest_mode", "round_prefer_floor");
  common.cubic_a = c.Float("cubic_coeff_a", -0.75);
  common.exclude_outside = c.Int("exclude_outside", 0) != 0;
  common.antialias = c.Int("antialias", 0) != 0;
  if (common.mode != "nearest" && common.mode != "linear" && common.mode != "cubic") {
    return c.Invalid(absl::StrCat("mode '", common.mode, "' is unknown"));
  }
  if (!KnowsCoordinates(common.coordinates) || !KnowsNearestMode(common.nearest_mode)) {
    return c.Unimplemented(absl::StrCat("coordinates by '", common.coordinates, "' and '",
                                        common.nearest_mode, "' are not supported"));
  }
  const auto rank = static_cast<size_t>(c.rank(0));
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.HasAttr("axes")) {
    axes = c.Ints("axes");
    for (int64_t& axis : axes) {
      EBB_ASSIGN_OR_RETURN(axis, NormalAxis(c, axis, c.rank(0)));
    }
  }
  ResizePlan plan{std::vector<ResizeAxis>(rank, common)};
  EBB_RETURN_IF_ERROR(ReadExtents(c, axes, &plan));
  return plan;
}

bool Unchanged(const ResizeAxis& axis) { return axis.in == axis.out && axis.scale == 1; }

// How often each position is repeated, if that is all; else 0.
int64_t Repeats(const ResizeAxis& axis) {
  if (axis.out % axis.in != 0) return 0;
  const int64_t times = axis.out / axis.in;
  const Ints positions = NearestPositions(axis);
  for (size_t o = 0; o < positions.size(); ++o) {
    if (positions[o] != static_cast<int64_t>(o) / times) return 0;
  }
  return times;
}

// All axes at once, as [.., d, 1, ..] expanded to [.., d, times, ..]; invalid if it does not fit.
absl::StatusOr<ValueId> Repeated(ConvertContext& c, const ResizePlan& plan, ValueId x) {
  Ints split, wide, joined;
  for (const ResizeAxis& axis : plan.axes) {
    EBB_RETURN_IF_ERROR(c.Allocate({DType::kI64, {axis.out}}).status());
    const int64_t times = Repeats(axis);
    if (times == 0) return ValueId();
    split.push_back(axis.in);
    wide.push_back(axis.in);
    joined.push_back(axis.out);
    if (times == 1) continue;
    split.push_back(1);
    wide.push_back(times);
  }
  if (split.size() > 8) return ValueId();
  EBB_ASSIGN_OR_RETURN(x, c.Emit("Reshape", {x}, {{"shape", split}}));
  EBB_ASSIGN_OR_RETURN(x, c.Emit("Expand", {x}, {{"shape", wide}}));
  return c.Emit("Reshape", {x}, {{"shape", joined}});
}

// x times the matrix of weights along axis d; the products run over the last or last but one axis.
absl::StatusOr<ValueId> Weighted(ConvertContext& c, const ResizeAxis& axis, size_t d, ValueId x) {
  const size_t rank = c.TypeOf(x).shape.size();
  const bool last = d + 1 == rank, in_place = d + 2 >= rank;
  Ints swap(rank);
  std::iota(swap.begin(), swap.end(), 0);
  std::swap(swap[d], swap[rank - 1]);
  if (!in_place) {
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Transpose", {x}, {{"perm", swap}}));
  }
  const std::vector<double> weights = ResizeWeights(axis);
  EBB_ASSIGN_OR_RETURN(HostTensor matrix, c.Allocate({c.type(0).dtype, {axis.out, axis.in}}));
  for (size_t i = 0; i < weights.size(); ++i) {
    if (c.type(0).dtype == DType::kF64) {
      matrix.as<double>()[i] = weights[i];
    } else {
      matrix.as<float>()[i] = static_cast<float>(weights[i]);
    }
  }
  const ValueId by = c.Constant(std::move(matrix));
  if (!last && in_place) return c.Emit("MatMul", {by, x});
  EBB_ASSIGN_OR_RETURN(x, c.Emit("MatMul", {x, by}, {{"trans_b", int64_t{1}}}));
  if (in_place) return x;
  return c.Emit("Transpose", {x}, {{"perm", swap}});
}

absl::Status Resize(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ResizePlan plan, ReadResize(c));
  const bool nearest = plan.axes.empty() || plan.axes[0].mode == "nearest";
  if (!nearest && (c.rank(0) < 2 || !graph::IsFloat(c.type(0).dtype))) {
    return c.Unimplemented("interpolation needs floats of rank 2 or more");
  }
  if (std::all_of(plan.axes.begin(), plan.axes.end(), Unchanged)) {
    c.Alias(0);
    return absl::OkStatus();
  }
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  if (nearest) {
    EBB_ASSIGN_OR_RETURN(const ValueId repeated, Repeated(c, plan, x));
    if (repeated.valid()) {
      c.SetOutput(0, repeated);
      return absl::OkStatus();
    }
  }
  for (size_t d = 0; d < plan.axes.size(); ++d) {
    const ResizeAxis& axis = plan.axes[d];
    if (Unchanged(axis)) continue;
    // The budget is asked before the positions are worked out.
    EBB_RETURN_IF_ERROR(
        c.Allocate({DType::kF64, {axis.out, nearest ? int64_t{1} : axis.in}}).status());
    if (nearest) {
      EBB_ASSIGN_OR_RETURN(x, ReadAt(c, x, d, NearestPositions(axis)));
    } else {
      EBB_ASSIGN_OR_RETURN(x, Weighted(c, axis, d, x));
    }
  }
  c.SetOutput(0, x);
  return absl::OkStatus();
}

// ---- Depth and space.

absl::Status Rearranged(ConvertContext& c, const Ints& split, const Ints& perm,
                        const Ints& joined) {
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(x, c.Emit("Reshape", {x}, {{"shape", split}}));
  EBB_ASSIGN_OR_RETURN(x, c.Emit("Transpose", {x}, {{"perm", perm}}));
  return c.Result("Reshape", {x}, {{"shape", joined}});
}

// blocksize, checked against the dimensions that it must divide.
absl::StatusOr<int64_t> BlockSize(const ConvertContext& c, const Ints& dividing) {
  if (c.rank(0) != 4) return c.Invalid("x must be [N,C,H,W]");
  const int64_t block = c.Int("blocksize", 0);
  bool fits = block >= 1 && block < (int64_t{1} << 20);
  for (int64_t axis : dividing) {
    const int64_t unit = axis == 1 ? block * block : block;
    fits = fits && c.shape(0)[static_cast<size_t>(axis)] % unit == 0;
  }
  if (!fits) {
    return c.Invalid(
        absl::StrCat("blocksize ", block, " does not divide ", graph::ToString(c.shape(0))));
  }
  return block;
}

absl::Status DepthToSpace(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const int64_t b, BlockSize(c, {1}));
  const Shape& s = c.shape(0);
  const int64_t depth = s[1] / (b * b);
  const Ints joined{s[0], depth, s[2] * b, s[3] * b};
  const std::string mode = c.Str("mode", "DCR");
  if (mode == "DCR") {
    return Rearranged(c, {s[0], b, b, depth, s[2], s[3]}, {0, 3, 4, 1, 5, 2}, joined);
  }
  if (mode != "CRD") return c.Invalid(absl::StrCat("mode '", mode, "' is unknown"));
  return Rearranged(c, {s[0], depth, b, b, s[2], s[3]}, {0, 1, 4, 2, 5, 3}, joined);
}

absl::Status SpaceToDepth(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const int64_t b, BlockSize(c, {2, 3}));
  const Shape& s = c.shape(0);
  return Rearranged(c, {s[0], s[1], s[2] / b, b, s[3] / b, b}, {0, 3, 5, 1, 2, 4},
                    {s[0], s[1] * b * b, s[2] / b, s[3] / b});
}

constexpr OnnxOp kRows[] = {{"Resize", 1, 4, kFirstInput, Resize},
                            {"Upsample", 1, 2, kFirstInput, Resize},
                            {"DepthToSpace", 1, 1, kFirstInput, DepthToSpace},
                            {"SpaceToDepth", 1, 1, kFirstInput, SpaceToDepth}};

}  // namespace

absl::StatusOr<ValueId> PadByInput(ConvertContext& c, const std::string& mode, const Ints& pads,
                                   ValueId x) {
  const Shape shape = c.shape(0);
  const size_t rank = shape.size();
  for (size_t d = 0; d < rank; ++d) {
    const int64_t dim = shape[d], before = pads[d], out = dim + before + pads[d + rank];
    if (before == 0 && pads[d + rank] == 0) continue;
    if (dim < 1 || out < 0 || out > kMaxPositions) {
      return c.Invalid(absl::StrCat("the pads ", before, " and ", pads[d + rank],
                                    " do not fit axis ", d, " of ", graph::ToString(shape)));
    }
    EBB_RETURN_IF_ERROR(c.Allocate({DType::kI64, {out}}).status());
    Ints positions(static_cast<size_t>(out));
    const int64_t period = mode == "reflect" ? std::max<int64_t>(1, 2 * (dim - 1)) : dim;
    for (int64_t o = 0; o < out; ++o) {
      const int64_t at = o - before;
      int64_t& position = positions[static_cast<size_t>(o)];
      position =
          mode == "edge" ? std::clamp<int64_t>(at, 0, dim - 1) : ((at % period) + period) % period;
      if (position >= dim) position = period - position;
    }
    EBB_ASSIGN_OR_RETURN(x, ReadAt(c, x, d, positions));
  }
  return x;
}

absl::Span<const OnnxOp> ImageOps() { return kRows; }

}  // namespace ebb::model
