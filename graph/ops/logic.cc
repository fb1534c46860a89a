// Comparisons and logic: bool results, through which no gradient flows.
#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

absl::StatusOr<Types> Compared(const ShapeContext& context, Kind kind) {
  EBB_RETURN_IF_ERROR(AttrReader(context.attrs).Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* a, Required(context, 0, "a", kind));
  EBB_ASSIGN_OR_RETURN(const TensorType* b, Required(context, 1, "b", kind));
  const std::optional<Shape> shape = BroadcastShapes(a->shape, b->shape);
  if (!shape || a->dtype != b->dtype) {
    return Invalid("a is ", ToString(*a), " and b is ", ToString(*b),
                   ", they need one type and shapes that broadcast");
  }
  return Output(DType::kBool, *shape);
}

template <Kind kKind>
absl::StatusOr<Types> CompareShape(const ShapeContext& context) {
  return Compared(context, kKind);
}

absl::StatusOr<Types> LogicShape(const ShapeContext& context) {
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    EBB_ASSIGN_OR_RETURN(const TensorType* x,
                         Required(context, i, absl::StrCat("input ", i), Kind::kAny));
    if (x->dtype != DType::kBool) {
      return Invalid("input ", i, " is ", ToString(*x), ", needs bool");
    }
  }
  if (context.inputs.size() == 1) return SameType<NoAttrs, Kind::kAny>(context);
  return Compared(context, Kind::kAny);
}

OpDef Row(absl::string_view name, int inputs, absl::StatusOr<Types> (*shape)(const ShapeContext&)) {
  return {.name = name,
          .min_inputs = inputs,
          .max_inputs = inputs,
          .shape = shape,
          .flops = PerOutput<1>,
          .elementwise = true};
}

}  // namespace

absl::Span<const OpDef> Logic() {
  static const auto* const rows = new std::vector<OpDef>{
      Row("Equal", 2, CompareShape<Kind::kAny>),
      Row("Less", 2, CompareShape<Kind::kNumber>),
      Row("LessEqual", 2, CompareShape<Kind::kNumber>),
      Row("And", 2, LogicShape),
      Row("Or", 2, LogicShape),
      Row("Xor", 2, LogicShape),
      Row("Not", 1, LogicShape),
  };
  return *rows;
}

}  // namespace ebb::graph::ops
