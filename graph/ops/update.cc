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
      {.name = "ClipFactor",
       .min_inputs = 1,
       .max_inputs = -1,
       .shape = ClipFactorShape,
       .flops = ClipFactorFlops},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
