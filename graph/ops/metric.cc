// Metrics: sums over the first `valid` rows of a batch, with the count of what was summed.
#include "graph/ops/loss_shapes.h"

namespace ebb::graph::ops {
namespace {

absl::StatusOr<Types> SumAndCount(const ShapeContext& context) {
  EBB_ASSIGN_OR_RETURN(const TensorType* valid, Optional(context, 2, "valid", Kind::kIndex));
  if (valid != nullptr) EBB_RETURN_IF_ERROR(Exactly(context, 2, "valid", {DType::kI64, {1}}));
  return Outputs({{DType::kF32, {}}, {DType::kF32, {}}});
}

// (logits, labels, [valid])
template <ReadAttrs kRead>
absl::StatusOr<Types> LabelMetricShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  kRead(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* logits, Required(context, 0, "logits"));
  EBB_RETURN_IF_ERROR(CheckLabels(context, 1, logits->shape).status());
  return SumAndCount(context);
}

// (pred or logits, target, [valid])
absl::StatusOr<Types> TargetMetricShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(AttrReader(context.attrs).Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* x, Required(context, 0, "input 0"));
  EBB_RETURN_IF_ERROR(CheckRank("input 0", *x, 1));
  EBB_RETURN_IF_ERROR(Exactly(context, 1, "target", *x));
  return SumAndCount(context);
}

void CrossEntropyAttrs(AttrReader& attrs) {
  IgnoreIndexAttr(attrs);
  LabelSmoothingAttr(attrs);
}
void TopKAttrs(AttrReader& attrs) {
  attrs.Int("k", 1, kMaxInt);
  IgnoreIndexAttr(attrs);
}

template <int64_t kFlops>
OpDef Metric(absl::string_view name, absl::StatusOr<Types> (*shape)(const ShapeContext&)) {
  return {
      .name = name, .min_inputs = 2, .max_inputs = 3, .shape = shape, .flops = PerInput<kFlops>};
}

}  // namespace

absl::Span<const OpDef> Metric() {
  static const auto* const rows = new std::vector<OpDef>{
      Metric<6>("CrossEntropySum", LabelMetricShape<CrossEntropyAttrs>),
      Metric<1>("TopKCorrect", LabelMetricShape<TopKAttrs>),
      Metric<3>("MseSum", TargetMetricShape),
      Metric<8>("BceSum", TargetMetricShape),
      Metric<1>("BinaryCorrect", TargetMetricShape),
  };
  return *rows;
}

}  // namespace ebb::graph::ops
