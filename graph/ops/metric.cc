// Metrics: sums over the first `valid` rows of a batch, with the count of what was summed; and
// counts by class.
#include "graph/ops/loss_shapes.h"

namespace ebb::graph::ops {
namespace {

absl::Status CheckValid(const ShapeContext& context, size_t i) {
  EBB_ASSIGN_OR_RETURN(const TensorType* valid, Optional(context, i, "valid", Kind::kIndex));
  return valid == nullptr ? absl::OkStatus() : Exactly(context, i, "valid", {DType::kI64, {1}});
}

absl::StatusOr<Types> SumAndCount(const ShapeContext& context, size_t valid = 2) {
  EBB_RETURN_IF_ERROR(CheckValid(context, valid));
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

// (logits, labels, [valid], [weight])
absl::StatusOr<Types> CrossEntropySumShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  IgnoreIndexAttr(attrs);
  LabelSmoothingAttr(attrs);
  const bool log_prob = attrs.Flag("log_prob");
  attrs.Check(!log_prob || context.attrs.Float("label_smoothing", 0) == 0,
              "log_prob goes without label_smoothing");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* logits, Required(context, 0, "logits"));
  EBB_RETURN_IF_ERROR(CheckLabels(context, 1, logits->shape).status());
  EBB_ASSIGN_OR_RETURN(const TensorType* weight, Optional(context, 3, "weight"));
  if (weight != nullptr) {
    EBB_RETURN_IF_ERROR(Exactly(context, 3, "weight", {logits->dtype, {logits->shape[1]}}));
  }
  return SumAndCount(context);
}

// (x, [valid])
absl::StatusOr<Types> RowsSumShape(const ShapeContext& context) {
  EBB_RETURN_IF_ERROR(AttrReader(context.attrs).Finish());
  EBB_RETURN_IF_ERROR(Required(context, 0, "x").status());
  return SumAndCount(context, 1);
}

// (logits, labels, [valid])
absl::StatusOr<Types> ClassCountsShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  IgnoreIndexAttr(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* logits, Required(context, 0, "logits"));
  EBB_RETURN_IF_ERROR(CheckLabels(context, 1, logits->shape).status());
  EBB_RETURN_IF_ERROR(CheckValid(context, 2));
  return Outputs({{DType::kF32, {3, logits->shape[1]}}});
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
      {.name = "CrossEntropySum",
       .min_inputs = 2,
       .max_inputs = 4,
       .shape = CrossEntropySumShape,
       .flops = PerInput<6>},
      Metric<1>("TopKCorrect", LabelMetricShape<TopKAttrs>),
      Metric<3>("MseSum", TargetMetricShape),
      Metric<8>("BceSum", TargetMetricShape),
      Metric<1>("BinaryCorrect", TargetMetricShape),
      Metric<1>("ClassCounts", ClassCountsShape),
      {.name = "RowsSum",
       .min_inputs = 1,
       .max_inputs = 2,
       .shape = RowsSumShape,
       .flops = PerInput<1>},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
