// Optimizers: they write a parameter and its slots, and have no outputs.
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

// SgdUpdate(param, grad, hyper, [velocity])
absl::StatusOr<Types> SgdShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  attrs.Float("lr_scale", 0, kLargest, 1);
  attrs.Float("weight_decay", 0, kLargest, 0);
  const double momentum = attrs.Float("momentum", 0, kLargest, 0);
  const double dampening = attrs.Float("dampening", 0, 1, 0);
  const bool nesterov = attrs.Flag("nesterov");
  attrs.Check(!nesterov || (momentum > 0 && dampening == 0),
              "nesterov needs momentum > 0 and dampening = 0");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType param, ReadParam(context));
  EBB_ASSIGN_OR_RETURN(const TensorType* velocity, Optional(context, 3, "velocity"));
  if (velocity == nullptr && momentum != 0) {
    return Invalid("momentum=", momentum, " needs a velocity, input 3");
  }
  if (velocity != nullptr) EBB_RETURN_IF_ERROR(Exactly(context, 3, "velocity", param));
  return Types();
}

// AdamUpdate(param, grad, hyper, m, v)
absl::StatusOr<Types> AdamShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  attrs.Float("lr_scale", 0, kLargest, 1);
  attrs.Float("weight_decay", 0, kLargest, 0);
  const double beta1 = attrs.Float("beta1", 0, 1, 0.9);
  const double beta2 = attrs.Float("beta2", 0, 1, 0.999);
  attrs.Check(beta1 < 1 && beta2 < 1, "beta1 and beta2 must be less than 1");
  attrs.Float("epsilon", 0, kLargest, 1e-8);
  attrs.Flag("decoupled");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType param, ReadParam(context));
  EBB_RETURN_IF_ERROR(Exactly(context, 3, "m", param));
  EBB_RETURN_IF_ERROR(Exactly(context, 4, "v", param));
  return Types();
}

}  // namespace

absl::Span<const OpDef> Update() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "SgdUpdate",
       .min_inputs = 3,
       .max_inputs = 4,
       .shape = SgdShape,
       .flops = PerInput<6>,
       .mutates = {0, 3}},
      {.name = "AdamUpdate",
       .min_inputs = 5,
       .max_inputs = 5,
       .shape = AdamShape,
       .flops = PerInput<14>,
       .mutates = {0, 3, 4}},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
