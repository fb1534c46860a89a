// Batch, layer, RMS and local response normalisation, and softmax with its two meanings of axis.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

constexpr uint32_t kFirstThree = 7;

// Before opset 14 a node with its five outputs is the mark of a training export.
bool ExportedForTraining(const ConvertContext& c) {
  if (c.opset() >= 14) return c.Int("training_mode", 0) != 0;
  return c.num_outputs() > 1;
}

struct Affine {
  ValueId x, scale, bias;
};

// Batch statistics without running ones: what the node names as such is computed by the step, as of
// convolutions whose weights are standardised by a batch norm.
absl::StatusOr<ValueId> ByBatch(ConvertContext& c, const Affine& in, double epsilon) {
  const Shape shape = c.TypeOf(in.x).shape;
  if (shape[0] == 1) {  // a channel of the only sample is a group
    EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                         c.EmitAll("GroupNorm", {in.x, in.scale, in.bias},
                                   {{"groups", shape[1]}, {"epsilon", epsilon}}));
    return outputs[0];
  }
  Ints axes, channel = {shape[1]};
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != 1) axes.push_back(static_cast<int64_t>(d));
    if (d > 1) channel.push_back(1);
  }
  const graph::Attrs attrs = {{"axes", axes}, {"keepdims", int64_t{1}}};
  EBB_ASSIGN_OR_RETURN(const ValueId mean, c.Emit("ReduceMean", {in.x}, attrs));
  EBB_ASSIGN_OR_RETURN(const ValueId apart, c.Emit("Sub", {in.x, mean}));
  EBB_ASSIGN_OR_RETURN(const ValueId square, c.Emit("Mul", {apart, apart}));
  EBB_ASSIGN_OR_RETURN(ValueId deviation, c.Emit("ReduceMean", {square}, attrs));
  EBB_ASSIGN_OR_RETURN(deviation, c.Emit("Scale", {deviation}, {{"shift", epsilon}}));
  EBB_ASSIGN_OR_RETURN(deviation, c.Emit("Sqrt", {deviation}));
  EBB_ASSIGN_OR_RETURN(ValueId y, c.Emit("Div", {apart, deviation}));
  EBB_ASSIGN_OR_RETURN(const ValueId scale, c.Emit("Reshape", {in.scale}, {{"shape", channel}}));
  EBB_ASSIGN_OR_RETURN(const ValueId bias, c.Emit("Reshape", {in.bias}, {{"shape", channel}}));
  EBB_ASSIGN_OR_RETURN(y, c.Emit("Mul", {y, scale}));
  return c.Emit("Add", {y, bias});
}

absl::Status BatchNormalization(ConvertContext& c) {
  if (c.opset() < 9 && c.Int("spatial", 1) == 0) {
    return c.Unimplemented("spatial=0 is not supported; export with opset_version=17");
  }
  const BatchNormMode mode = c.options().batch_norm;
  const bool train = mode == BatchNormMode::kTrain ||
                     (mode == BatchNormMode::kAsExported && ExportedForTraining(c));
  for (size_t i = 1; i < c.num_outputs(); ++i) {
    if (c.Wants(i)) {
      return c.Unimplemented(
          "the statistics it computes cannot be read by other nodes: Ebb keeps them as the "
          "job's state. Remove them from the model's outputs");
    }
  }
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  const Shape shape = c.shape(0);
  const bool merged = shape.size() > 5;  // the graph's ops have up to 3 spatial dimensions
  if (merged) {
    const Ints flat = {shape[0], shape[1],
                       graph::NumElements(Shape(shape.begin() + 2, shape.end()))};
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Reshape", {x}, {{"shape", flat}}));
  }
  EBB_ASSIGN_OR_RETURN(const ValueId scale, c.Weight(1));
  EBB_ASSIGN_OR_RETURN(const ValueId bias, c.Weight(2));
  EBB_ASSIGN_OR_RETURN(const ValueId mean, c.Statistic(3));
  EBB_ASSIGN_OR_RETURN(const ValueId var, c.Statistic(4));
  const double epsilon = c.Float("epsilon", 1e-5);
  const auto finish = [&](ValueId y) -> absl::Status {
    if (merged) {
      return c.Result("Reshape", {y}, {{"shape", Ints(shape.begin(), shape.end())}});
    }
    c.SetOutput(0, y);
    return absl::OkStatus();
  };
  if (!train) {
    EBB_ASSIGN_OR_RETURN(
        const std::vector<ValueId> outputs,
        c.EmitAll("BatchNormInference", {x, scale, bias, mean, var}, {{"epsilon", epsilon}}));
    return finish(outputs[0]);
  }
  if (c.Producer(mean) != nullptr || c.Producer(var) != nullptr) {
    EBB_ASSIGN_OR_RETURN(const ValueId y, ByBatch(c, {x, scale, bias}, epsilon));
    return finish(y);
  }
  // ONNX's momentum is the share of the old value, the graph's (and PyTorch's) that of the new one.
  if (c.SharesStatistics(mean, var)) {
    return c.Invalid(
        "its running statistics are those of another node, and both would write them; "
        "give each batch norm statistics of its own");
  }
  EBB_ASSIGN_OR_RETURN(
      const std::vector<ValueId> outputs,
      c.EmitAll("BatchNorm", {x, scale, bias, mean, var},
                {{"epsilon", epsilon}, {"momentum", 1 - c.Float("momentum", 0.9)}}));
  return finish(outputs[0]);
}

// The axes that LayerNormalization and RMSNormalization average over: from `axis` to the last.
absl::StatusOr<Ints> TrailingAxes(const ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", -1), c.rank(0)));
  Ints axes(static_cast<size_t>(c.rank(0) - axis));
  std::iota(axes.begin(), axes.end(), axis);
  return axes;
}

// A scale or bias of another shape than what is normalised, but one that broadcasts to it.
absl::StatusOr<ValueId> AsTrailing(ConvertContext& c, size_t i, const Ints& shape) {
  EBB_ASSIGN_OR_RETURN(const ValueId weight, c.Weight(i));
  const Shape want(shape.begin(), shape.end()), have = c.TypeOf(weight).shape;
  if (have == want) return weight;
  if (graph::NumElements(have) == graph::NumElements(want)) {
    return c.Emit("Reshape", {weight}, {{"shape", shape}});
  }
  if (graph::BroadcastShapes(have, want) == want) {
    return c.Emit("Expand", {weight}, {{"shape", shape}});
  }
  return c.Unimplemented(absl::StrCat("input ", i, " is ", graph::ToString(have),
                                      ", it must broadcast to the normalised axes ",
                                      graph::ToString(want)));
}

absl::Status LayerNormalization(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints axes, TrailingAxes(c));
  const Shape& x_shape = c.shape(0);
  const Ints trailing(x_shape.begin() + axes.front(), x_shape.end());
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId scale, AsTrailing(c, 1, trailing));
  std::vector<ValueId> inputs = {x, scale};
  if (c.Has(2)) {
    EBB_ASSIGN_OR_RETURN(const ValueId bias, AsTrailing(c, 2, trailing));
    inputs.push_back(bias);
  }
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("LayerNorm", inputs,
                                 {{"axis", axes.front()}, {"epsilon", c.Float("epsilon", 1e-5)}}));
  for (size_t i = 0; i < 3; ++i) {
    if (i == 0 || c.Wants(i)) c.SetOutput(i, outputs[i]);
  }
  return absl::OkStatus();
}

absl::Status RmsNormalization(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints axes, TrailingAxes(c));
  const Shape& x_shape = c.shape(0);
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId scale,
                       AsTrailing(c, 1, Ints(x_shape.begin() + axes.front(), x_shape.end())));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("RmsNorm", {x, scale},
                                 {{"axis", axes.front()}, {"epsilon", c.Float("epsilon", 1e-5)}}));
  c.SetOutput(0, outputs[0]);
  return absl::OkStatus();
}

// A scale or bias of groups or channels as one number a channel. A constant stays one: exporters
// write ones and zeros for layers that have none, sometimes in the shape of the data.
absl::StatusOr<ValueId> PerChannel(ConvertContext& c, size_t i) {
  const int64_t channels = c.shape(0)[1];
  const HostTensor* known = c.host(i);
  if (known != nullptr && c.shape(i) == c.shape(0) && !known->data.empty()) {
    const std::vector<double> values = AsDoubles(*known);
    if (std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; })) {
      return c.Emit("Expand", {c.Constant(ScalarTensor(c.type(i).dtype, values[0]))},
                    {{"shape", Ints{channels}}});
    }
  }
  EBB_ASSIGN_OR_RETURN(const ValueId weight, c.In(i));
  const Shape& shape = c.TypeOf(weight).shape;
  if (shape.size() != 1 || shape[0] == channels || shape[0] < 1 || channels % shape[0] != 0) {
    return weight;
  }
  const int64_t groups = shape[0];
  EBB_ASSIGN_OR_RETURN(ValueId spread, c.Emit("Reshape", {weight}, {{"shape", Ints{groups, 1}}}));
  EBB_ASSIGN_OR_RETURN(spread,
                       c.Emit("Expand", {spread}, {{"shape", Ints{groups, channels / groups}}}));
  return c.Emit("Reshape", {spread}, {{"shape", Ints{channels}}});
}

// GroupNormalization (opset 18: a scale and bias a group, 21: a channel), InstanceNormalization.
absl::Status GroupNormalization(ConvertContext& c) {
  if (c.rank(0) < 2) return c.Invalid("x must be [N,C,...]");
  const bool instance = c.op() == "InstanceNormalization";
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId scale, PerChannel(c, 1));
  EBB_ASSIGN_OR_RETURN(const ValueId bias, PerChannel(c, 2));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("GroupNorm", {x, scale, bias},
                                 {{"groups", instance ? c.shape(0)[1] : c.Int("num_groups", 0)},
                                  {"epsilon", c.Float("epsilon", 1e-5)}}));
  c.SetOutput(0, outputs[0]);
  return absl::OkStatus();
}

// x over its norm along an axis.
absl::Status LpNormalization(ConvertContext& c) {
  const int64_t p = c.Int("p", 2);
  if (p != 1 && p != 2) return c.Invalid("p must be 1 or 2");
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", -1), c.rank(0)));
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(ValueId norm, p == 1 ? c.Emit("Abs", {x}) : c.Emit("Mul", {x, x}));
  EBB_ASSIGN_OR_RETURN(
      norm, c.Emit("ReduceSum", {norm}, {{"axes", Ints{axis}}, {"keepdims", int64_t{1}}}));
  if (p == 2) {
    EBB_ASSIGN_OR_RETURN(norm, c.Emit("Sqrt", {norm}));
  }
  return c.Result("Div", {x, norm});
}

// (x - mean) / (deviation + 1e-9)
absl::Status MeanVarianceNormalization(ConvertContext& c) {
  Ints axes = c.Ints("axes", {0, 2, 3});
  EBB_ASSIGN_OR_RETURN(axes, NormalAxes(c, std::move(axes), c.rank(0)));
  const graph::Attrs attrs = {{"axes", axes}, {"keepdims", int64_t{1}}};
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId mean, c.Emit("ReduceMean", {x}, attrs));
  EBB_ASSIGN_OR_RETURN(const ValueId apart, c.Emit("Sub", {x, mean}));
  EBB_ASSIGN_OR_RETURN(const ValueId square, c.Emit("Mul", {apart, apart}));
  EBB_ASSIGN_OR_RETURN(const ValueId variance, c.Emit("ReduceMean", {square}, attrs));
  EBB_ASSIGN_OR_RETURN(ValueId deviation, c.Emit("Sqrt", {variance}));
  EBB_ASSIGN_OR_RETURN(deviation, c.Emit("Scale", {deviation}, {{"shift", 1e-9}}));
  return c.Result("Div", {apart, deviation});
}

absl::Status Lrn(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("Lrn", {x},
                  {{"size", c.Int("size", 1)},
                   {"alpha", c.Float("alpha", 0.0001)},
                   {"beta", c.Float("beta", 0.75)},
                   {"bias", c.Float("bias", 1.0)}});
}

// Before opset 13 the input is flattened to two dimensions at `axis`, and each row is one softmax.
absl::Status Softmax(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  const bool flat = c.opset() < 13;
  EBB_ASSIGN_OR_RETURN(const int64_t axis, NormalAxis(c, c.Int("axis", flat ? 1 : -1), c.rank(0)));
  if (!flat || axis == c.rank(0) - 1) return c.Result(c.op(), {x}, {{"axis", axis}});
  const Shape& shape = c.shape(0);
  const Ints rows{graph::NumElements(Shape(shape.begin(), shape.begin() + axis)),
                  graph::NumElements(Shape(shape.begin() + axis, shape.end()))};
  EBB_ASSIGN_OR_RETURN(const ValueId matrix, c.Emit("Reshape", {x}, {{"shape", rows}}));
  EBB_ASSIGN_OR_RETURN(const ValueId soft, c.Emit(c.op(), {matrix}, {{"axis", int64_t{1}}}));
  return c.Result("Reshape", {soft}, {{"shape", Ints(shape.begin(), shape.end())}});
}

constexpr OnnxOp kRows[] = {
    {"BatchNormalization", 5, 5, kFirstThree, BatchNormalization},
    {"LayerNormalization", 2, 3, kFirstThree, LayerNormalization},
    {"RMSNormalization", 2, 2, kAllInputs, RmsNormalization},
    {"GroupNormalization", 3, 3, kAllInputs, GroupNormalization},
    {"InstanceNormalization", 3, 3, kAllInputs, GroupNormalization},
    {"LpNormalization", 1, 1, kAllInputs, LpNormalization},
    {"MeanVarianceNormalization", 1, 1, kAllInputs, MeanVarianceNormalization},
    {"LRN", 1, 1, kAllInputs, Lrn},
    {"Softmax", 1, 1, kAllInputs, Softmax},
    {"LogSoftmax", 1, 1, kAllInputs, Softmax}};

}  // namespace

absl::Span<const OnnxOp> NormOps() { return kRows; }

}  // namespace ebb::model
