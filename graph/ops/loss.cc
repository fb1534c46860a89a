// Losses and their gradients. Labels and targets are data: no gradient flows to them.
#include "graph/ops/loss_shapes.h"

namespace ebb::graph::ops {
namespace {

std::string ReductionAttr(AttrReader& attrs) {
  return attrs.Word("reduction", {"mean", "sum", "none"}, "mean");
}

// The loss itself: a value an item, or a scalar.
TensorType LossType(const std::string& reduction, DType dtype, const Shape& items) {
  return {dtype, reduction == "none" ? items : Shape()};
}

// ---- CrossEntropy(logits, labels, [weight]), NllLoss(log_prob, labels, [weight]).

absl::Status CheckWeight(const ShapeContext& context, size_t i, DType dtype, int64_t classes) {
  EBB_ASSIGN_OR_RETURN(const TensorType* weight, Optional(context, i, "weight"));
  return weight == nullptr ? absl::OkStatus() : Exactly(context, i, "weight", {dtype, {classes}});
}

template <bool kCrossEntropy>
absl::StatusOr<Types> ClassLossShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  IgnoreIndexAttr(attrs);
  if (kCrossEntropy) LabelSmoothingAttr(attrs);
  const std::string reduction = ReductionAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x,
                       Required(context, 0, kCrossEntropy ? "logits" : "log_prob"));
  EBB_ASSIGN_OR_RETURN(const Shape items, CheckLabels(context, 1, x->shape));
  EBB_RETURN_IF_ERROR(CheckWeight(context, 2, x->dtype, x->shape[1]));
  Types types = {LossType(reduction, x->dtype, items)};
  if (kCrossEntropy) types.push_back(*x);
  return Outputs(std::move(types));
}

// CrossEntropyGrad(dloss, log_prob, labels, [weight])
absl::StatusOr<Types> CrossEntropyGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  IgnoreIndexAttr(attrs);
  LabelSmoothingAttr(attrs);
  const std::string reduction = ReductionAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* log_prob, Required(context, 1, "log_prob"));
  EBB_ASSIGN_OR_RETURN(const Shape items, CheckLabels(context, 2, log_prob->shape));
  EBB_RETURN_IF_ERROR(CheckWeight(context, 3, log_prob->dtype, log_prob->shape[1]));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dloss", LossType(reduction, log_prob->dtype, items)));
  return Outputs({*log_prob});
}

// NllLossGrad(dloss, labels, [weight]) {shape}
absl::StatusOr<Types> NllLossGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  IgnoreIndexAttr(attrs);
  const std::string reduction = ReductionAttr(attrs);
  const Shape shape = attrs.Dims("shape");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* dloss, Required(context, 0, "dloss"));
  EBB_ASSIGN_OR_RETURN(const Shape items, CheckLabels(context, 1, shape));
  EBB_RETURN_IF_ERROR(CheckWeight(context, 2, dloss->dtype, shape[1]));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dloss", LossType(reduction, dloss->dtype, items)));
  return Output(dloss->dtype, shape);
}

std::vector<ValueId> WithWeight(const Node& node, std::vector<ValueId> inputs) {
  if (node.inputs.size() > 2 && node.inputs[2].valid()) inputs.push_back(node.inputs[2]);
  return inputs;
}

absl::Status RefuseGradOfWeight(const GradContext& grad) {
  if (!Wants(grad, 2)) return absl::OkStatus();
  return absl::UnimplementedError(
      "a loss has no gradient of its class weights: make them constant");
}

absl::Status CrossEntropyGrad(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOf(grad, 1, "log_prob"));
  EBB_RETURN_IF_ERROR(RefuseGradOfWeight(grad));
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(
      const ValueId dx,
      grad.Emit("CrossEntropyGrad", WithWeight(node, {grad.dy(0), node.outputs[1], node.inputs[1]}),
                node.attrs));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

absl::Status NllLossGrad(GradContext& grad) {
  EBB_RETURN_IF_ERROR(RefuseGradOfWeight(grad));
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  Attrs attrs = node.attrs;
  attrs.Set("shape", ToInts(grad.type(node.inputs[0]).shape));
  EBB_ASSIGN_OR_RETURN(
      const ValueId dx,
      grad.Emit("NllLossGrad", WithWeight(node, {grad.dy(0), node.inputs[1]}), std::move(attrs)));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

// ---- MseLoss(pred, target), BceWithLogits(logits, target): an item is an element.

absl::StatusOr<Types> TargetLossShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const std::string reduction = ReductionAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "input 0"));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "target", *x));
  return Outputs({LossType(reduction, x->dtype, x->shape)});
}

absl::StatusOr<Types> TargetLossGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const std::string reduction = ReductionAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 1, "input 1"));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dloss", LossType(reduction, x->dtype, x->shape)));
  EBB_RETURN_IF_ERROR(Exactly(context, 2, "target", *x));
  return Outputs({*x});
}

absl::Status TargetLossGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  EBB_ASSIGN_OR_RETURN(const ValueId dx,
                       grad.Emit(absl::StrCat(node.op->name, "Grad"),
                                 {grad.dy(0), node.inputs[0], node.inputs[1]}, node.attrs));
  grad.SetGrad(0, dx);
  return absl::OkStatus();
}

Flops LabelFlops(const Graph& graph, const Node& node) {
  return Product({2, InputElements(graph, node, 1)});
}

}  // namespace

absl::Span<const OpDef> Loss() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "CrossEntropy",
       .min_inputs = 2,
       .max_inputs = 3,
       .shape = ClassLossShape<true>,
       .gradient = CrossEntropyGrad,
       .flops = PerInput<6>},
      {.name = "CrossEntropyGrad",
       .min_inputs = 3,
       .max_inputs = 4,
       .shape = CrossEntropyGradShape,
       .flops = PerOutput<4>,
       .in_place = 1},
      {.name = "NllLoss",
       .min_inputs = 2,
       .max_inputs = 3,
       .shape = ClassLossShape<false>,
       .gradient = NllLossGrad,
       .flops = LabelFlops},
      {.name = "NllLossGrad",
       .min_inputs = 2,
       .max_inputs = 3,
       .shape = NllLossGradShape,
       .flops = LabelFlops},
      {.name = "MseLoss",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = TargetLossShape,
       .gradient = TargetLossGrad,
       .flops = PerInput<3>},
      {.name = "MseLossGrad",
       .min_inputs = 3,
       .max_inputs = 3,
       .shape = TargetLossGradShape,
       .flops = PerOutput<3>},
      {.name = "BceWithLogits",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = TargetLossShape,
       .gradient = TargetLossGrad,
       .flops = PerInput<8>},
      {.name = "BceWithLogitsGrad",
       .min_inputs = 3,
       .max_inputs = 3,
       .shape = TargetLossGradShape,
       .flops = PerOutput<6>},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
