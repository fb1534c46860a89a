// Convolution, pooling and dropout.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

// The window of a convolution, either way, and its groups.
absl::StatusOr<Window> ReadConvWindow(const ConvertContext& c, int64_t* groups) {
  if (c.rank(1) != c.rank(0) || c.rank(0) < 3) {
    return c.Invalid(absl::StrCat("data ", graph::ToString(c.shape(0)), " and weights ",
                                  graph::ToString(c.shape(1)), " do not fit"));
  }
  const Ints kernel(c.shape(1).begin() + 2, c.shape(1).end());
  if (c.Ints("kernel_shape", kernel) != kernel) {
    return c.Invalid("kernel_shape differs from the shape of the weights");
  }
  *groups = c.Int("group", 1);
  if (*groups < 1 || *groups > c.shape(0)[1]) return c.Invalid("group is out of range");
  return ReadWindow(c, kernel);
}

absl::Status Conv(ConvertContext& c) {
  int64_t groups = 1;
  EBB_ASSIGN_OR_RETURN(const Window window, ReadConvWindow(c, &groups));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId w, c.Weight(1));
  std::vector<ValueId> inputs = {x, w};
  if (c.Has(2)) {
    EBB_ASSIGN_OR_RETURN(const ValueId bias, c.Weight(2));
    inputs.push_back(bias);
  }
  return c.Result("Conv", std::move(inputs),
                  {{"strides", window.strides},
                   {"pads", window.pads},
                   {"dilations", window.dilations},
                   {"groups", groups}});
}

// Of an axis of a transposed convolution, so that its arithmetic stays within 63 bits.
constexpr int64_t kMaxSide = int64_t{1} << 30;

// Pads and output extents of a transposed convolution, as ONNX defines them.
absl::StatusOr<Ints> TransposedShape(const ConvertContext& c, Window* w) {
  const size_t count = w->kernel.size();
  const Ints extra = c.Ints("output_padding", Ints(count, 0));
  const Ints wanted = c.Ints("output_shape");
  const std::string auto_pad = c.Str("auto_pad", "NOTSET");
  const bool same = auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
  bool ok = extra.size() == count && (wanted.empty() || wanted.size() == count);
  Ints out;
  for (size_t i = 0; ok && i < count; ++i) {
    const int64_t in = c.shape(0)[i + 2];
    ok = in >= 1 && in < kMaxSide && extra[i] >= 0 && extra[i] < kMaxSide;
    if (!ok) break;
    const int64_t whole =
        w->strides[i] * (in - 1) + extra[i] + (w->kernel[i] - 1) * w->dilations[i] + 1;
    if (same || !wanted.empty()) {
      out.push_back(wanted.empty() ? in * w->strides[i] : wanted[i]);
      const int64_t total = std::max<int64_t>(0, whole - out[i]);
      const int64_t small = total / 2;
      w->pads[i] = auto_pad == "SAME_UPPER" ? small : total - small;
      w->pads[i + count] = total - w->pads[i];
    } else {
      out.push_back(whole - w->pads[i] - w->pads[i + count]);
    }
    ok = out[i] >= 1 && out[i] < kMaxSide;
  }
  if (!ok) return c.Invalid("output_padding, output_shape and pads do not fit the data");
  return out;
}

// The gradient of a convolution by its input, read forward.
absl::Status ConvTranspose(ConvertContext& c) {
  int64_t groups = 1;
  EBB_ASSIGN_OR_RETURN(Window window, ReadConvWindow(c, &groups));
  EBB_ASSIGN_OR_RETURN(Ints shape, TransposedShape(c, &window));
  const int64_t filters = c.shape(1)[1] * groups;
  shape.insert(shape.begin(), {c.shape(0)[0], filters});
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId w, c.Weight(1));
  const graph::Attrs attrs = {{"strides", window.strides},
                              {"pads", window.pads},
                              {"dilations", window.dilations},
                              {"groups", groups},
                              {"input_shape", shape}};
  if (!c.Has(2)) return c.Result("ConvGradInput", {x, w}, attrs);
  EBB_ASSIGN_OR_RETURN(const ValueId y, c.Emit("ConvGradInput", {x, w}, attrs));
  EBB_ASSIGN_OR_RETURN(ValueId bias, c.Weight(2));
  Ints channels(window.kernel.size() + 1, 1);
  channels[0] = filters;
  EBB_ASSIGN_OR_RETURN(bias, c.Emit("Reshape", {bias}, {{"shape", channels}}));
  return c.Result("Add", {y, bias});
}

absl::StatusOr<Ints> SpatialAxes(const ConvertContext& c) {
  if (c.rank(0) < 3) return c.Invalid("there are no spatial dimensions");
  Ints axes(static_cast<size_t>(c.rank(0) - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
}

// |x|^p and its inverse for a p >= 1 that is a whole number.
absl::StatusOr<ValueId> Power(ConvertContext& c, ValueId x, double p) {
  if (p == 1) return x;
  if (p == 2) return c.Emit("Mul", {x, x});
  if (p == 0.5) return c.Emit("Sqrt", {x});
  return c.Emit("Pow", {x, c.Constant(ScalarTensor(c.type(0).dtype, p))});
}

// (sum over windows of |x|^p)^(1/p), by the average of windows that count their pads.
absl::Status LpPool(ConvertContext& c) {
  const auto p = static_cast<double>(c.Int("p", 2));
  if (!(p >= 1)) return c.Invalid("p must be at least 1");
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(x, c.Emit("Abs", {x}));
  EBB_ASSIGN_OR_RETURN(x, Power(c, x, p));
  if (c.op() == "GlobalLpPool") {
    EBB_ASSIGN_OR_RETURN(const Ints axes, SpatialAxes(c));
    EBB_ASSIGN_OR_RETURN(x, c.Emit("ReduceSum", {x}, {{"axes", axes}, {"keepdims", int64_t{1}}}));
  } else {
    EBB_ASSIGN_OR_RETURN(const Window window, ReadWindow(c, c.Ints("kernel_shape")));
    if (window.dilations != Ints(window.kernel.size(), 1) || window.counted_pads != window.pads) {
      return c.Unimplemented("dilations and ceil_mode are not supported");
    }
    EBB_ASSIGN_OR_RETURN(x, c.Emit("AveragePool", {x},
                                   {{"kernel", window.kernel},
                                    {"strides", window.strides},
                                    {"pads", window.pads},
                                    {"counted_pads", window.pads}}));
    const Shape kernel(window.kernel.begin(), window.kernel.end());
    const auto positions = static_cast<double>(graph::NumElements(kernel));
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Scale", {x}, {{"scale", positions}}));
  }
  EBB_ASSIGN_OR_RETURN(x, Power(c, x, 1 / p));
  c.SetOutput(0, x);
  return absl::OkStatus();
}

absl::Status MaxPool(ConvertContext& c) {
  if (c.Wants(1)) {
    return c.Unimplemented("its Indices output is not supported; use the pooled values only");
  }
  EBB_ASSIGN_OR_RETURN(const Window window, ReadWindow(c, c.Ints("kernel_shape")));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("MaxPool", {x},
                                 {{"kernel", window.kernel},
                                  {"strides", window.strides},
                                  {"pads", window.pads},
                                  {"dilations", window.dilations}}));
  c.SetOutput(0, outputs[0]);
  return absl::OkStatus();
}

absl::Status AveragePool(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(Window window, ReadWindow(c, c.Ints("kernel_shape")));
  for (int64_t dilation : window.dilations) {
    if (dilation != 1) return c.Unimplemented("dilated average pooling is not supported");
  }
  if (c.Int("count_include_pad", 0) == 0) window.counted_pads.assign(window.pads.size(), 0);
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("AveragePool", {x},
                  {{"kernel", window.kernel},
                   {"strides", window.strides},
                   {"pads", window.pads},
                   {"counted_pads", window.counted_pads}});
}

absl::Status GlobalAveragePool(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints axes, SpatialAxes(c));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("ReduceMean", {x}, {{"axes", axes}, {"keepdims", int64_t{1}}});
}

absl::Status GlobalMaxPool(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints axes, SpatialAxes(c));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  const Ints kernel(c.shape(0).begin() + 2, c.shape(0).end());
  const int64_t window = graph::NumElements(Shape(kernel.begin(), kernel.end()));
  if (window < 1 || window > 255 || kernel.size() > 3) {
    return c.Result("ReduceMax", {x}, {{"axes", axes}, {"keepdims", int64_t{1}}});
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("MaxPool", {x},
                                 {{"kernel", kernel},
                                  {"strides", Ints(kernel.size(), 1)},
                                  {"pads", Ints(2 * kernel.size(), 0)},
                                  {"dilations", Ints(kernel.size(), 1)}}));
  c.SetOutput(0, outputs[0]);
  return absl::OkStatus();
}

// Whether a Dropout drops at all, and how much.
absl::StatusOr<double> DropoutRatio(ConvertContext& c) {
  EBB_RETURN_IF_ERROR(c.CheckSpelling("ratio", 1, 12));
  double ratio = c.Float("ratio", 0.5);
  bool training = true;  // before opset 12 only training exports had the node
  if (c.opset() >= 12) {
    if (c.Has(1)) {
      EBB_ASSIGN_OR_RETURN(const HostTensor* tensor, c.Known(1, "ratio"));
      if (tensor->data.empty()) return c.Invalid("ratio is empty");
      ratio = FirstAsDouble(*tensor);
    }
    training = false;
    if (c.Has(2)) {
      EBB_ASSIGN_OR_RETURN(const HostTensor* tensor, c.Known(2, "training_mode"));
      if (tensor->data.empty()) return c.Invalid("training_mode is empty");
      training = FirstAsDouble(*tensor) != 0;
    }
  }
  if (c.options().dropout >= 0) return c.options().dropout;
  if (!training && ratio > 0) {
    c.Warn(
        "was exported in inference mode and drops nothing; export with model.train() and "
        "training=TrainingMode.TRAINING, or set the job's dropout ratio");
  }
  return training ? ratio : 0.0;
}

absl::Status Dropout(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const double ratio, DropoutRatio(c));
  if (!(ratio >= 0 && ratio < 1)) {
    return c.Invalid(absl::StrCat("dropout ratio ", ratio, " must be at least 0 and below 1"));
  }
  if (ratio == 0) {
    c.Alias(0);
    if (c.Wants(1)) {
      EBB_ASSIGN_OR_RETURN(HostTensor kept, c.Allocate({DType::kBool, c.shape(0)}));
      for (uint8_t& flag : kept.as<uint8_t>()) flag = 1;
      c.SetHost(1, std::move(kept));
    }
    return absl::OkStatus();
  }
  if (c.Wants(1)) return c.Unimplemented("its mask output is not supported");
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  const ValueId rng = c.Rng();
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("Dropout", {x, rng}, {{"ratio", ratio}, {"stream", c.Stream()}}));
  c.SetOutput(0, outputs[0]);
  return absl::OkStatus();
}

// Ones with one probability, as stochastic depth draws them: a Dropout of ones, times p. So
// evaluation, where nothing drops, sees p itself, which is what the model divides by.
absl::Status Bernoulli(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const HostTensor* known, c.Known(0, "the probability"));
  const std::vector<double> values = AsDoubles(*known);
  const double p = values.empty() ? 0 : values[0];
  const bool one = std::all_of(values.begin(), values.end(), [&](double v) { return v == p; });
  if (!one || !(p > 0 && p <= 1) || !graph::IsFloat(c.type(0).dtype)) {
    return c.Unimplemented("only one probability above 0 for all elements is supported");
  }
  if (c.HasAttr("dtype") || c.HasAttr("seed")) {
    return c.Unimplemented("its attributes are not supported: the job's seed is used");
  }
  EBB_ASSIGN_OR_RETURN(HostTensor ones, c.Allocate(c.type(0)));
  VisitDType(ones.type.dtype, [&](auto zero) {
    for (auto& x : ones.as<decltype(zero)>()) x = 1;
  });
  const ValueId x = c.Constant(std::move(ones));
  if (p == 1) {
    c.SetOutput(0, x);
    return absl::OkStatus();
  }
  const ValueId rng = c.Rng();
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("Dropout", {x, rng}, {{"ratio", 1 - p}, {"stream", c.Stream()}}));
  return c.Result("Scale", {outputs[0]}, {{"scale", p}});
}

constexpr OnnxOp kRows[] = {{"Conv", 2, 3, kAllInputs, Conv},
                            {"ConvTranspose", 2, 3, kAllInputs, ConvTranspose},
                            {"LpPool", 1, 1, kAllInputs, LpPool},
                            {"GlobalLpPool", 1, 1, kAllInputs, LpPool},
                            {"MaxPool", 1, 1, kAllInputs, MaxPool},
                            {"AveragePool", 1, 1, kAllInputs, AveragePool},
                            {"GlobalAveragePool", 1, 1, kAllInputs, GlobalAveragePool},
                            {"GlobalMaxPool", 1, 1, kAllInputs, GlobalMaxPool},
                            {"Bernoulli", 1, 1, kNoInputs, Bernoulli},
                            {"Dropout", 1, 3, kFirstInput, Dropout}};

}  // namespace

absl::Span<const OnnxOp> NnOps() { return kRows; }

}  // namespace ebb::model
