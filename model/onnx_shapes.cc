// Shape rules of movement ops, reductions and windows, with every opset's spelling.
#include "model/onnx_shapes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"

namespace ebb::model {
namespace {

constexpr int64_t kMaxExtent = int64_t{1} << 31;  // of kernels, pads and the like

std::string Join(const Ints& values) { return absl::StrCat("[", absl::StrJoin(values, ","), "]"); }

absl::StatusOr<Shape> Checked(const NodeView& node, Shape shape) {
  const absl::Status status = CheckHostType({DType::kF64, shape});
  if (!status.ok()) return node.Invalid(status.message());
  return shape;
}

absl::StatusOr<Shape> FromRequest(const NodeView& node, const Ints& request) {
  const Shape& in = node.shape(0);
  const bool zero_is_zero = node.Int("allowzero", 0) != 0;
  const std::string text =
      absl::StrCat("cannot reshape ", graph::ToString(in), " to ", Join(request));
  if (request.size() > 8) return node.Invalid(absl::StrCat(text, ": the highest rank is 8"));
  Shape out;
  int64_t known = 1;
  int unknown = -1;
  for (size_t i = 0; i < request.size(); ++i) {
    int64_t dim = request[i];
    if (dim == 0 && !zero_is_zero) {
      if (i >= in.size()) return node.Invalid(text);
      dim = in[i];
    }
    if (dim < -1 || (dim == -1 && unknown >= 0)) return node.Invalid(text);
    if (dim == -1) {
      unknown = static_cast<int>(i);
    } else if (__builtin_mul_overflow(known, dim, &known)) {
      return node.Invalid(text);
    }
    out.push_back(dim);
  }
  const int64_t count = graph::NumElements(in);
  if (unknown >= 0) {
    if (known == 0 || count % known != 0) return node.Invalid(text);
    out[static_cast<size_t>(unknown)] = count / known;
  } else if (known != count) {
    return node.Invalid(absl::StrCat(
        text,
        "; if the exported file has a batch size inside, export it with a dynamic batch axis"));
  }
  return Checked(node, std::move(out));
}

absl::StatusOr<Shape> Flattened(const NodeView& node) {
  int64_t axis = node.Int("axis", 1);
  if (axis < 0) axis += node.rank(0);
  if (axis < 0 || axis > node.rank(0)) return node.Invalid("axis is out of range");
  const Shape& in = node.shape(0);
  const Shape head(in.begin(), in.begin() + axis);
  const Shape tail(in.begin() + axis, in.end());
  return Shape{graph::NumElements(head), graph::NumElements(tail)};
}

absl::StatusOr<Shape> Squeezed(const NodeView& node) {
  const Shape& in = node.shape(0);
  EBB_ASSIGN_OR_RETURN(Ints axes, node.AttrOrInput("axes", 1, 13));
  const bool all = axes.empty();
  EBB_ASSIGN_OR_RETURN(axes, NormalAxes(node, std::move(axes), node.rank(0)));
  Shape out;
  for (int64_t i = 0; i < node.rank(0); ++i) {
    const int64_t dim = in[static_cast<size_t>(i)];
    const bool named = std::binary_search(axes.begin(), axes.end(), i);
    if (named && dim != 1) {
      return node.Invalid(absl::StrCat("axis ", i, " of ", graph::ToString(in), " is not 1"));
    }
    if (!named && !(all && dim == 1)) out.push_back(dim);
  }
  return out;
}

absl::StatusOr<Shape> Unsqueezed(const NodeView& node) {
  EBB_ASSIGN_OR_RETURN(Ints axes, node.AttrOrInput("axes", 1, 13));
  const int64_t rank = node.rank(0) + static_cast<int64_t>(axes.size());
  EBB_ASSIGN_OR_RETURN(axes, NormalAxes(node, std::move(axes), rank));
  Shape out;
  size_t next = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const bool inserted = std::binary_search(axes.begin(), axes.end(), i);
    out.push_back(inserted ? 1 : node.shape(0)[next++]);
  }
  return Checked(node, std::move(out));
}

}  // namespace

absl::StatusOr<int64_t> NormalAxis(const NodeView& node, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank) {
    return node.Invalid(absl::StrCat("axis ", axis, " is out of range for rank ", rank));
  }
  return axis < 0 ? axis + rank : axis;
}

absl::StatusOr<Ints> NormalAxes(const NodeView& node, Ints axes, int64_t rank) {
  for (int64_t& axis : axes) {
    EBB_ASSIGN_OR_RETURN(axis, NormalAxis(node, axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return node.Invalid(absl::StrCat("axes ", Join(axes), " name one axis twice"));
  }
  return axes;
}

absl::StatusOr<Shape> ReshapedShape(const NodeView& node) {
  if (node.op() == "Flatten") return Flattened(node);
  if (node.op() == "Squeeze") return Squeezed(node);
  if (node.op() == "Unsqueeze") return Unsqueezed(node);
  EBB_ASSIGN_OR_RETURN(const Ints request, node.KnownInts(1, "shape"));
  return FromRequest(node, request);
}

absl::StatusOr<Ints> TransposePerm(const NodeView& node) {
  const auto rank = static_cast<size_t>(node.rank(0));
  Ints perm = node.Ints("perm");
  if (!node.HasAttr("perm")) {
    for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  Ints sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  bool ok = perm.size() == rank;
  for (size_t i = 0; ok && i < rank; ++i) ok = sorted[i] == static_cast<int64_t>(i);
  if (!ok) return node.Invalid(absl::StrCat("perm ", Join(perm), " is no permutation of its axes"));
  return perm;
}

absl::StatusOr<SliceSpec> ReadSlice(const NodeView& node) {
  SliceSpec spec;
  Ints starts, ends, axes, steps;
  if (node.opset() < 10) {
    starts = node.Ints("starts");
    ends = node.Ints("ends");
    axes = node.Ints("axes");
  } else {
    EBB_ASSIGN_OR_RETURN(starts, node.KnownInts(1, "starts"));
    EBB_ASSIGN_OR_RETURN(ends, node.KnownInts(2, "ends"));
    EBB_ASSIGN_OR_RETURN(axes, node.AttrOrInput("axes", 3, 10));
    EBB_ASSIGN_OR_RETURN(steps, node.AttrOrInput("steps", 4, 10));
  }
  if (axes.empty()) {
    for (size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return node.Invalid("starts, ends, axes and steps differ in length");
  }
  EBB_ASSIGN_OR_RETURN(spec.axes, NormalAxes(node, axes, node.rank(0)));
  spec.shape = node.shape(0);
  for (int64_t axis : spec.axes) {
    size_t k = 0;
    while ((axes[k] < 0 ? axes[k] + node.rank(0) : axes[k]) != axis) ++k;
    int64_t& dim = spec.shape[static_cast<size_t>(axis)];
    const int64_t step = std::clamp(steps[k], -kMaxExtent, kMaxExtent);
    if (step == 0) return node.Invalid("a step is 0");
    const auto absolute = [&](int64_t i) { return i < 0 ? std::max(i + dim, int64_t{-1}) : i; };
    const int64_t low = step > 0 ? 0 : -1;
    const int64_t high = step > 0 ? dim : dim - 1;
    // A negative index that reaches before the first element stays there.
    int64_t start = std::clamp(absolute(starts[k]), step > 0 ? int64_t{0} : low, high);
    const int64_t end = std::clamp(absolute(ends[k]), low, high);
    const int64_t span = step > 0 ? end - start : start - end;
    const int64_t size = span <= 0 ? 0 : (span + std::abs(step) - 1) / std::abs(step);
    if (size == 0) start = 0;
    spec.starts.push_back(start);
    spec.ends.push_back(size == 0 ? (step > 0 ? 0 : start) : end);
    spec.steps.push_back(step);
    dim = size;
  }
  return spec;
}

absl::StatusOr<SplitSpec> ReadSplit(const NodeView& node) {
  SplitSpec spec;
  EBB_ASSIGN_OR_RETURN(spec.axis, NormalAxis(node, node.Int("axis", 0), node.rank(0)));
  EBB_ASSIGN_OR_RETURN(spec.sizes, node.AttrOrInput("split", 1, 13));
  const int64_t dim = node.shape(0)[static_cast<size_t>(spec.axis)];
  const auto parts = static_cast<int64_t>(node.num_outputs());
  if (spec.sizes.empty()) {
    const int64_t size = (dim + parts - 1) / parts;
    if (dim % parts != 0 && !node.HasAttr("num_outputs")) {
      return node.Invalid(absl::StrCat("cannot split ", dim, " into ", parts, " equal parts"));
    }
    for (int64_t i = 0; i < parts; ++i) {
      spec.sizes.push_back(std::clamp(dim - i * size, int64_t{0}, size));
    }
  }
  int64_t sum = 0;
  bool ok = static_cast<int64_t>(spec.sizes.size()) == parts;
  for (int64_t size : spec.sizes) {
    ok = ok && size >= 0 && size <= dim;
    sum += ok ? size : 0;
  }
  if (!ok || sum != dim) {
    return node.Invalid(absl::StrCat("split ", Join(spec.sizes), " does not divide axis ",
                                     spec.axis, " of ", graph::ToString(node.shape(0)), " into ",
                                     parts, " outputs"));
  }
  return spec;
}

absl::StatusOr<Shape> ExpandedShape(const NodeView& node) {
  EBB_ASSIGN_OR_RETURN(const Ints request, node.KnownInts(1, "shape"));
  EBB_ASSIGN_OR_RETURN(const Shape wanted, Checked(node, Shape(request.begin(), request.end())));
  const auto shape = graph::BroadcastShapes(node.shape(0), wanted);
  if (!shape.has_value()) {
    return node.Invalid(
        absl::StrCat("cannot expand ", graph::ToString(node.shape(0)), " to ", Join(request)));
  }
  return Checked(node, *shape);
}

absl::StatusOr<Ints> TileRepeats(const NodeView& node) {
  EBB_ASSIGN_OR_RETURN(Ints repeats, node.KnownInts(1, "repeats"));
  bool ok = static_cast<int64_t>(repeats.size()) == node.rank(0);
  for (int64_t repeat : repeats) ok = ok && repeat >= 0 && repeat <= kMaxExtent;
  if (!ok) {
    return node.Invalid(
        absl::StrCat("repeats ", Join(repeats), " do not fit ", graph::ToString(node.shape(0))));
  }
  return repeats;
}

absl::StatusOr<Ints> ReducedAxes(const NodeView& node) {
  const int input_since = node.op() == "ReduceSum" ? 13 : 18;
  EBB_ASSIGN_OR_RETURN(Ints axes, node.AttrOrInput("axes", 1, input_since));
  if (axes.empty() && node.Int("noop_with_empty_axes", 0) == 0) {
    for (int64_t i = 0; i < node.rank(0); ++i) axes.push_back(i);
  }
  return NormalAxes(node, std::move(axes), node.rank(0));
}

absl::StatusOr<Window> ReadWindow(const NodeView& node, Ints kernel) {
  const int64_t spatial = node.rank(0) - 2;
  if (spatial < 1 || spatial > 3) {
    return node.Unimplemented(absl::StrCat(graph::ToString(node.shape(0)),
                                           ": only 1 to 3 spatial dimensions are supported"));
  }
  const auto count = static_cast<size_t>(spatial);
  Window w{std::move(kernel),
           node.Ints("strides", Ints(count, 1)),
           node.Ints("dilations", Ints(count, 1)),
           node.Ints("pads", Ints(2 * count, 0)),
           {}};
  bool ok = w.kernel.size() == count && w.strides.size() == count && w.dilations.size() == count &&
            w.pads.size() == 2 * count;
  for (const Ints* list : {&w.kernel, &w.strides, &w.dilations}) {
    for (int64_t v : *list) ok = ok && v >= 1 && v < kMaxExtent;
  }
  for (int64_t pad : w.pads) ok = ok && pad >= 0 && pad < kMaxExtent;
  if (!ok) {
    return node.Invalid(absl::StrCat("kernel ", Join(w.kernel), ", strides ", Join(w.strides),
                                     ", dilations ", Join(w.dilations), " and pads ", Join(w.pads),
                                     " do not fit ", spatial, " spatial dimensions"));
  }
  const std::string auto_pad = node.Str("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  if (!same && auto_pad != "NOTSET" && auto_pad != "VALID") {
    return node.Invalid(absl::StrCat("auto_pad '", auto_pad, "' is unknown"));
  }
  if (auto_pad != "NOTSET") w.pads.assign(2 * count, 0);
  for (size_t i = 0; i < count; ++i) {
    const int64_t in = node.shape(0)[i + 2];
    const int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
    if (!same) continue;
    const int64_t out = (in + w.strides[i] - 1) / w.strides[i];
    const int64_t total = std::max<int64_t>(0, (out - 1) * w.strides[i] + extent - in);
    const int64_t small = total / 2;
    w.pads[i] = auto_pad == "SAME_UPPER" ? small : total - small;
    w.pads[i + count] = total - w.pads[i];
  }
  w.counted_pads = w.pads;
  for (size_t i = 0; i < count && node.Int("ceil_mode", 0) != 0; ++i) {
    const int64_t extent = (w.kernel[i] - 1) * w.dilations[i] + 1;
    const int64_t padded = node.shape(0)[i + 2] + w.pads[i] + w.pads[i + count];
    if (padded < extent) continue;
    int64_t steps = (padded - extent + w.strides[i] - 1) / w.strides[i];
    // The last window must begin inside the input or its leading pad.
    if (steps * w.strides[i] >= node.shape(0)[i + 2] + w.pads[i]) --steps;
    w.pads[i + count] += std::max<int64_t>(0, steps * w.strides[i] + extent - padded);
  }
  return w;
}

}  // namespace ebb::model
