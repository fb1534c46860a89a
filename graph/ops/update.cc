// Optimizers: they write a parameter and its slots, and have no outputs. And what scales all
// gradients before.
#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

constexpr double kLargest = 1e300;  // of a factor

// param, grad and hyper; returns the parameter's type.
absl::StatusOr<TensorType> ReadParam(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* param, Required(context, 0, "param"));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "grad", *param));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "hyper", {DType::kF64, {4}}));
  return *param;
}

// The attributes and the input of the moving average, which an update may keep.
void EmaAttrs(AttrReader& attrs) {
  const double decay = attrs.Float("ema_decay", 0, 1, 0);
  attrs.Check(decay < 1, "ema_decay must be less than 1");
}
absl::Status CheckEma(const ShapeContext& context, size_t i, const TensorType& param) {
  EBB_ASSIGN_OR_RETURN(const TensorType* ema, Optional(context, i, "ema"));
  if (ema != nullptr) return Exactly(context, i, "ema", param);
  if (context.attrs.Float("ema_decay", 0) == 0) return absl::OkStatus();
  return Invalid("ema_decay needs an ema, input ", i);
}

// SgdUpdate(param, grad, hyper, [velocity], [ema])
absl::StatusOr<Types> SgdShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  attrs.Float("lr_scale", 0, kLargest, 1);
  attrs.Float("weight_decay", 0, kLargest, 0);
  const double momentum = attrs.Float("momentum", 0, kLargest, 0);
  const double dampening = attrs.Float("dampening", 0, 1, 0);
  const bool nesterov = attrs.Flag("nesterov");
  attrs.Check(!nesterov || (momentum > 0 && dampening == 0),
              "nesterov needs momentum > 0 and dampening = 0");
  EmaAttrs(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType param, ReadParam(context));
  EBB_ASSIGN_OR_RETURN(const TensorType* velocity, Optional(context, 3, "velocity"));
  if (velocity == nullptr && momentum != 0) {
    return Invalid("momentum=", momentum, " needs a velocity, input 3");
  }
  if (velocity != nullptr) EBB_RETURN_IF_ERROR(Exactly(context, 3, "velocity", param));
  EBB_RETURN_IF_ERROR(CheckEma(context, 4, param));
  return Types();
}

// AdamUpdate(param, grad, hyper, m, v, [ema])
absl::StatusOr<Types> AdamShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  attrs.Float("lr_scale", 0, kLargest, 1);
  attrs.Float("weight_decay", 0, kLargest, 0);
  const double beta1 = attrs.Float("beta1", 0, 1, 0.9);
  const double beta2 = attrs.Float("beta2", 0, 1, 0.999);
  attrs.Check(beta1 < 1 && beta2 < 1, "beta1 and beta2 must be less than 1");
  attrs.Float("epsilon", 0, kLargest, 1e-8);
  attrs.Flag("decoupled");
  EmaAttrs(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType param, ReadParam(context));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "m", param));
  EBB_RETURN_IF_ERROR(Exactly(context, 4, "v", param));
  EBB_RETURN_IF_ERROR(CheckEma(context, 5, param));
  return Types();
}

// AdagradUpdate(param, grad, hyper, sum, [ema])
absl::StatusOr<Types> AdagradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  attrs.Float("lr_scale", 0, kLargest, 1);
  attrs.Float("weight_decay", 0, kLargest, 0);
  attrs.Float("lr_decay", 0, kLargest, 0);
  attrs.Float("epsilon", 0, kLargest, 1e-10);
  EmaAttrs(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType param, ReadParam(context));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "sum", param));
  EBB_RETURN_IF_ERROR(CheckEma(context, 4, param));
  return Types();
}

// RmsPropUpdate(param, grad, hyper, square, [velocity], [mean], [ema])
absl::StatusOr<Types> RmsPropShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  attrs.Float("lr_scale", 0, kLargest, 1);
  attrs.Float("weight_decay", 0, kLargest, 0);
  attrs.Float("alpha", 0, 1, 0.99);
  attrs.Float("epsilon", 0, kLargest, 1e-8);
  const double momentum = attrs.Float("momentum", 0, kLargest, 0);
  const bool centered = attrs.Flag("centered");
  EmaAttrs(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType param, ReadParam(context));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "square", param));
  if (momentum > 0) EBB_RETURN_IF_ERROR(Exactly(context, 4, "velocity", param));
  if (centered) EBB_RETURN_IF_ERROR(Exactly(context, 5, "mean", param));
  for (const auto& [i, name] : {std::pair(4, "velocity"), std::pair(5, "mean")}) {
    const auto at = static_cast<size_t>(i);
    EBB_ASSIGN_OR_RETURN(const TensorType* slot, Optional(context, at, name));
    const bool wanted = i == 4 ? momentum > 0 : centered;
    if (slot != nullptr && !wanted) return Invalid("input ", i, ", ", name, ", is not used");
  }
  EBB_RETURN_IF_ERROR(CheckEma(context, 6, param));
  return Types();
}

// What row-wise Adagrad keeps of a parameter: a number a row.
absl::StatusOr<TensorType> RowSums(const TensorType& param) {
  if (param.shape.empty())
    return Invalid("row-wise Adagrad needs rows; param is ", ToString(param));
  return TensorType{param.dtype, {param.shape[0]}};
}
void RowwiseAttrs(AttrReader& attrs) {
  attrs.Float("lr_scale", 0, kLargest, 1);
  attrs.Float("weight_decay", 0, kLargest, 0);
  attrs.Float("epsilon", 0, kLargest, 1e-8);
}

// RowwiseAdagradUpdate(param, grad, hyper, sum, [ema])
absl::StatusOr<Types> RowwiseAdagradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  RowwiseAttrs(attrs);
  attrs.Flag("sparse");
  EmaAttrs(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType param, ReadParam(context));
  EBB_ASSIGN_OR_RETURN(const TensorType sums, RowSums(param));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "sum", sums));
  EBB_RETURN_IF_ERROR(CheckEma(context, 4, param));
  return Types();
}

// The type of dy as the gradient of the look-up reads it: GatherGrad's, or with offsets (input 5)
// EmbeddingBagGrad's.
absl::StatusOr<TensorType> LookUpGradient(const ShapeContext& context, const TensorType& param,
                                          bool include_last_offset) {
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, Required(context, 4, "indices", Kind::kIndex));
  EBB_ASSIGN_OR_RETURN(const TensorType* offsets, Optional(context, 5, "offsets", Kind::kIndex));
  TensorType dy{param.dtype, indices->shape};
  if (offsets != nullptr) {
    EBB_RETURN_IF_ERROR(CheckRank("indices", *indices, 1, 1));
    EBB_RETURN_IF_ERROR(CheckRank("offsets", *offsets, 1, 1));
    EBB_RETURN_IF_ERROR(CheckRank("param", param, 2, 2));
    EBB_RETURN_IF_ERROR(Exactly(context, 5, "offsets", {indices->dtype, offsets->shape}));
    if (include_last_offset && offsets->shape[0] < 1) return Invalid("offsets are empty");
    dy.shape = {offsets->shape[0] - (include_last_offset ? 1 : 0)};
  }
  dy.shape.insert(dy.shape.end(), param.shape.begin() + 1, param.shape.end());
  return dy;
}

// SparseRowwiseAdagradUpdate(param, dy, hyper, sum, indices, [offsets])
absl::StatusOr<Types> SparseRowwiseAdagradShape(const ShapeContext& context) {
  const bool in_bags = context.inputs.size() > 5 && context.inputs[5] != nullptr;
  AttrReader attrs(context.attrs);
  RowwiseAttrs(attrs);
  if (in_bags) attrs.Word("mode", {"sum", "mean"});
  const bool include_last_offset = in_bags && attrs.Flag("include_last_offset");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* param, Required(context, 0, "param"));
  EBB_ASSIGN_OR_RETURN(const TensorType sums, RowSums(*param));
  EBB_ASSIGN_OR_RETURN(const TensorType dy, LookUpGradient(context, *param, include_last_offset));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "dy", dy));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "hyper", {DType::kF64, {4}}));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "sum", sums));
  return Types();
}

// Of what is looked up, not of the table.
Flops SparseRowwiseAdagradFlops(const Graph& graph, const Node& node) {
  return Product({8, InputElements(graph, node, 1)});
}

// ClipFactor(grad1, ..., gradn): of any shapes, of one type.
absl::StatusOr<Types> ClipFactorShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const double max_norm = attrs.Float("max_norm", 0, kLargest);
  attrs.Check(max_norm > 0, "max_norm must be above 0");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* first, Required(context, 0, "grad"));
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(const TensorType* grad, Required(context, i, "grad"));
    if (grad->dtype != first->dtype) {
      return Invalid("gradients are of one type; input 0 is ", ToString(*first), ", input ", i,
                     " is ", ToString(*grad));
    }
  }
  return Output(first->dtype, {});
}

Flops ClipFactorFlops(const Graph& graph, const Node& node) {
  Flops flops;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    flops += Product({2, InputElements(graph, node, i)});
  }
  return flops;
}

}  // namespace

absl::Span<const OpDef> Update() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "SgdUpdate",
       .min_inputs = 3,
       .max_inputs = 5,
       .shape = SgdShape,
       .flops = PerInput<6>,
       .mutates = {0, 3, 4}},
      {.name = "AdamUpdate",
       .min_inputs = 5,
       .max_inputs = 6,
       .shape = AdamShape,
       .flops = PerInput<14>,
       .mutates = {0, 3, 4, 5}},
      {.name = "AdagradUpdate",
       .min_inputs = 4,
       .max_inputs = 5,
       .shape = AdagradShape,
       .flops = PerInput<8>,
       .mutates = {0, 3, 4}},
      {.name = "RmsPropUpdate",
       .min_inputs = 4,
       .max_inputs = 7,
       .shape = RmsPropShape,
       .flops = PerInput<12>,
       .mutates = {0, 3, 4, 5, 6}},
      {.name = "RowwiseAdagradUpdate",
       .min_inputs = 4,
       .max_inputs = 5,
       .shape = RowwiseAdagradShape,
       .flops = PerInput<7>,
       .mutates = {0, 3, 4}},
      {.name = "SparseRowwiseAdagradUpdate",
       .min_inputs = 5,
       .max_inputs = 6,
       .shape = SparseRowwiseAdagradShape,
       .flops = SparseRowwiseAdagradFlops,
       .mutates = {0, 3}},
      {.name = "ClipFactor",
       .min_inputs = 1,
       .max_inputs = -1,
       .shape = ClipFactorShape,
       .flops = ClipFactorFlops},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
