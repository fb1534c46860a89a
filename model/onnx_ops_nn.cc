// Convolution, pooling and dropout.
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

absl::Status Conv(ConvertContext& c) {
  if (c.rank(1) != c.rank(0) || c.rank(0) < 3) {
    return c.Invalid(absl::StrCat("data ", graph::ToString(c.shape(0)), " and weights ",
                                  graph::ToString(c.shape(1)), " do not fit"));
  }
  const Ints kernel(c.shape(1).begin() + 2, c.shape(1).end());
  if (c.Ints("kernel_shape", kernel) != kernel) {
    return c.Invalid("kernel_shape differs from the shape of the weights");
  }
  const int64_t groups = c.Int("group", 1);
  if (groups < 1 || groups > c.shape(0)[1]) return c.Invalid("group is out of range");
  EBB_ASSIGN_OR_RETURN(const Window window, ReadWindow(c, kernel));
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

absl::StatusOr<Ints> SpatialAxes(const ConvertContext& c) {
  if (c.rank(0) < 3) return c.Invalid("there are no spatial dimensions");
  Ints axes(static_cast<size_t>(c.rank(0) - 2));
  std::iota(axes.begin(), axes.end(), 2);
  return axes;
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
    c.Warn("a window of more than 255 positions has no gradient: the model cannot be trained");
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

constexpr OnnxOp kRows[] = {{"Conv", 2, 3, kAllInputs, Conv},
                            {"MaxPool", 1, 1, kAllInputs, MaxPool},
                            {"AveragePool", 1, 1, kAllInputs, AveragePool},
                            {"GlobalAveragePool", 1, 1, kAllInputs, GlobalAveragePool},
                            {"GlobalMaxPool", 1, 1, kAllInputs, GlobalMaxPool},
                            {"Dropout", 1, 3, kFirstInput, Dropout}};

}  // namespace

absl::Span<const OnnxOp> NnOps() { return kRows; }

}  // namespace ebb::model
