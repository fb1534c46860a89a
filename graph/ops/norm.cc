// Batch, layer and local response normalisation, softmax.
#include <algorithm>

#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

// ---- Batch normalisation over x [N,C,...], with vectors of length C.

struct BatchInput {
  TensorType x;
  TensorType channel;  // [C]
};

// Input `i` as x; the inputs in [first, last) must be vectors over its channels.
absl::StatusOr<BatchInput> ReadBatch(const ShapeContext& context, size_t i, size_t first,
                                     size_t last) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, i, "x"));
  EBB_RETURN_IF_ERROR(CheckRank("x", *x, 2, 5));
  if (std::find(x->shape.begin(), x->shape.end(), 0) != x->shape.end()) {
    return Invalid("x is ", ToString(*x), ": there are no elements to normalise");
  }
  // Of 16-bit activations the scale, the shift and the statistics stay f32.
  const DType channel = IsLow(x->dtype) ? DType::kF32 : x->dtype;
  BatchInput batch{*x, {channel, {x->shape[1]}}};
  for (size_t j = first; j < last; ++j) {
    EBB_RETURN_IF_ERROR(Exactly(context, j, absl::StrCat("input ", j), batch.channel));
  }
  return batch;
}

void EpsilonAttr(AttrReader& attrs) { attrs.Float("epsilon", 0, 1e6, 1e-5); }

absl::StatusOr<Types> BatchNormShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EpsilonAttr(attrs);
  attrs.Float("momentum", 0, 1, 0.1);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const BatchInput batch, ReadBatch(context, 0, 1, 5));
  return Outputs({batch.x, batch.channel, batch.channel});
}

absl::StatusOr<Types> BatchNormInferenceShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EpsilonAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const BatchInput batch, ReadBatch(context, 0, 1, 5));
  return Outputs({batch.x});
}

// (dy, x, scale, mean, var) -> dx, dscale, dbias
absl::StatusOr<Types> BatchNormGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EpsilonAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const BatchInput batch, ReadBatch(context, 1, 2, 5));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", batch.x));
  return Outputs({batch.x, batch.channel, batch.channel});
}

absl::Status EmitBatchGrad(GradContext& grad, absl::string_view op, ValueId mean, ValueId var) {
  if (!grad.dy(0).valid() || (!Wants(grad, 0) && !Wants(grad, 1) && !Wants(grad, 2))) {
    return absl::OkStatus();
  }
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> made,
                       grad.EmitAll(op, {grad.dy(0), node.inputs[0], node.inputs[1], mean, var},
                                    {{"epsilon", node.attrs.Float("epsilon", 1e-5)}}));
  for (size_t i = 0; i < 3; ++i) {
    if (Wants(grad, i)) grad.SetGrad(i, made[i]);
  }
  return absl::OkStatus();
}

absl::Status BatchNormGrad(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 1, "the batch's mean"));
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 2, "the batch's variance"));
  const Node node = grad.node();
  return EmitBatchGrad(grad, "BatchNormGrad", node.outputs[1], node.outputs[2]);
}

absl::Status BatchNormInferenceGrad(GradContext& grad) {
  if (Wants(grad, 3) || Wants(grad, 4)) {
    return absl::UnimplementedError("BatchNormInference has no gradient of its running statistics");
  }
  const Node node = grad.node();
  return EmitBatchGrad(grad, "BatchNormInferenceGrad", node.inputs[3], node.inputs[4]);
}

// ---- Layer normalisation of x over its axes from `axis` on.

struct LayerInput {
  TensorType x;
  TensorType weight;  // the shape of what is normalised
  TensorType stats;   // that of the rest: one number a normalised group, rank as x
};

absl::StatusOr<LayerInput> ReadLayer(const ShapeContext& context, size_t i, AttrReader& attrs) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, i, "x"));
  const size_t axis = attrs.Axis("axis", x->shape.size());
  EBB_RETURN_IF_ERROR(attrs.Finish());
  LayerInput layer{*x, {x->dtype, {}}, *x};
  for (size_t d = axis; d < x->shape.size(); ++d) {
    if (x->shape[d] == 0) {
      return Invalid("x is ", ToString(*x), ": there are no elements to normalise");
    }
    layer.weight.shape.push_back(x->shape[d]);
    layer.stats.shape[d] = 1;
  }
  return layer;
}

// (x, scale, [bias]) -> y, mean, inv_std
absl::StatusOr<Types> LayerNormShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EpsilonAttr(attrs);
  EBB_ASSIGN_OR_RETURN(const LayerInput layer, ReadLayer(context, 0, attrs));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "scale", layer.weight));
  EBB_ASSIGN_OR_RETURN(const TensorType* bias, Optional(context, 2, "bias"));
  if (bias != nullptr) EBB_RETURN_IF_ERROR(Exactly(context, 2, "bias", layer.weight));
  return Outputs({layer.x, layer.stats, layer.stats});
}

// (dy, x, scale, mean, inv_std) -> dx, dscale, dbias
absl::StatusOr<Types> LayerNormGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EBB_ASSIGN_OR_RETURN(const LayerInput layer, ReadLayer(context, 1, attrs));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", layer.x));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "scale", layer.weight));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "mean", layer.stats));
  EBB_RETURN_IF_ERROR(Exactly(context, 4, "inv_std", layer.stats));
  return Outputs({layer.x, layer.weight, layer.weight});
}

absl::Status LayerNormGrad(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 1, "the mean"));
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 2, "the inverse of the deviation"));
  if (!grad.dy(0).valid() || (!Wants(grad, 0) && !Wants(grad, 1) && !Wants(grad, 2))) {
    return absl::OkStatus();
  }
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(
      const std::vector<ValueId> made,
      grad.EmitAll("LayerNormGrad",
                   {grad.dy(0), node.inputs[0], node.inputs[1], node.outputs[1], node.outputs[2]},
                   {{"axis", node.attrs.Int("axis", 0)}}));
  for (size_t i = 0; i < 3; ++i) {
    if (Wants(grad, i)) grad.SetGrad(i, made[i]);
  }
  return absl::OkStatus();
}

// ---- Root mean square normalisation: the same without mean and bias.

// (x, scale) -> y, inv_rms
absl::StatusOr<Types> RmsNormShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EpsilonAttr(attrs);
  EBB_ASSIGN_OR_RETURN(const LayerInput layer, ReadLayer(context, 0, attrs));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "scale", layer.weight));
  return Outputs({layer.x, layer.stats});
}

// (dy, x, scale, inv_rms) -> dx, dscale
absl::StatusOr<Types> RmsNormGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  EBB_ASSIGN_OR_RETURN(const LayerInput layer, ReadLayer(context, 1, attrs));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", layer.x));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "scale", layer.weight));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "inv_rms", layer.stats));
  return Outputs({layer.x, layer.weight});
}

absl::Status RmsNormGrad(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 1, "the inverse of the root mean square"));
  if (!grad.dy(0).valid() || (!Wants(grad, 0) && !Wants(grad, 1))) return absl::OkStatus();
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(
      const std::vector<ValueId> made,
      grad.EmitAll("RmsNormGrad", {grad.dy(0), node.inputs[0], node.inputs[1], node.outputs[1]},
                   {{"axis", node.attrs.Int("axis", 0)}}));
  for (size_t i = 0; i < 2; ++i) {
    if (Wants(grad, i)) grad.SetGrad(i, made[i]);
  }
  return absl::OkStatus();
}

// ---- Local response normalisation: x [N,C,...].

void LrnAttrs(AttrReader& attrs) {
  attrs.Int("size", 1, kMaxInt);
  attrs.Float("alpha");
  attrs.Float("beta");
  attrs.Float("bias");
}

absl::StatusOr<Types> LrnShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "input 0"));
  EBB_RETURN_IF_ERROR(CheckRank("input 0", *x, 2, 5));
  return SameType<LrnAttrs>(context);
}

Flops LrnFlops(const Graph& graph, const Node& node) {
  const int64_t channels = graph.value(node.inputs[0]).type.shape[1];
  const int64_t window = std::min(node.attrs.Int("size", 1), channels);
  return Product({OutputElements(graph, node, 0), 2 * window + 8});
}

// ---- Softmax, of one input, and its gradient, of two.

void ZeroMaskedAttr(AttrReader& attrs) { attrs.Flag("zero_masked"); }

template <ReadAttrs kRead>
absl::StatusOr<Types> SoftmaxShape(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "input 0"));
  AttrReader attrs(context.attrs);
  attrs.Axis("axis", x->shape.size());
  kRead(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    EBB_RETURN_IF_ERROR(Exactly(context, i, "y", *x));
  }
  return Outputs({*x});
}

template <ReadAttrs kRead>
OpDef Softmax(absl::string_view name) {
  return {.name = name,
          .shape = SoftmaxShape<kRead>,
          .gradient = GradFromOutput,
          .flops = PerOutput<5>,
          .in_place = 0};
}
template <ReadAttrs kRead>
OpDef SoftmaxGrad(absl::string_view name) {
  return {.name = name,
          .min_inputs = 2,
          .max_inputs = 2,
          .shape = SoftmaxShape<kRead>,
          .flops = PerOutput<4>,
          .in_place = 0};
}

}  // namespace

absl::Span<const OpDef> Norm() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "BatchNorm",
       .min_inputs = 5,
       .max_inputs = 5,
       .shape = BatchNormShape,
       .gradient = BatchNormGrad,
       .flops = PerOutput<8>,
       .mutates = {3, 4}},
      {.name = "BatchNormGrad",
       .min_inputs = 5,
       .max_inputs = 5,
       .shape = BatchNormGradShape,
       .flops = PerOutput<12>,
       .in_place = 0},
      {.name = "BatchNormInference",
       .min_inputs = 5,
       .max_inputs = 5,
       .shape = BatchNormInferenceShape,
       .gradient = BatchNormInferenceGrad,
       .flops = PerOutput<2>},
      {.name = "BatchNormInferenceGrad",
       .min_inputs = 5,
       .max_inputs = 5,
       .shape = BatchNormGradShape,
       .flops = PerOutput<6>,
       .in_place = 0},
      {.name = "LayerNorm",
       .min_inputs = 2,
       .max_inputs = 3,
       .shape = LayerNormShape,
       .gradient = LayerNormGrad,
       .flops = PerOutput<8>,
       .in_place = 0},
      {.name = "LayerNormGrad",
       .min_inputs = 5,
       .max_inputs = 5,
       .shape = LayerNormGradShape,
       .flops = PerOutput<12>,
       .in_place = 0},
      {.name = "RmsNorm",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = RmsNormShape,
       .gradient = RmsNormGrad,
       .flops = PerOutput<4>,
       .in_place = 0},
      {.name = "RmsNormGrad",
       .min_inputs = 4,
       .max_inputs = 4,
       .shape = RmsNormGradShape,
       .flops = PerOutput<8>,
       .in_place = 0},
      {.name = "Lrn", .shape = LrnShape, .gradient = GradFromInput, .flops = LrnFlops},
      {.name = "LrnGrad", .min_inputs = 2, .max_inputs = 2, .shape = LrnShape, .flops = LrnFlops},
      Softmax<ZeroMaskedAttr>("Softmax"),
      SoftmaxGrad<ZeroMaskedAttr>("SoftmaxGrad"),
      Softmax<NoAttrs>("LogSoftmax"),
      SoftmaxGrad<NoAttrs>("LogSoftmaxGrad"),
  };
  return *rows;
}

}  // namespace ebb::graph::ops
