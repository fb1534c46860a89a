// Sums or means of rows of a table: what a Gather of all rows and a reduction a bag would give,
// without the rows in memory.
#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

struct BagAttrs {
  bool include_last_offset;
};

BagAttrs ReadBag(AttrReader& attrs) {
  attrs.Word("mode", {"sum", "mean"});
  return {attrs.Flag("include_last_offset")};
}

// The number of bags; checks indices and offsets, which are the inputs 1 and 2 of both ops.
absl::StatusOr<int64_t> BagsOf(const ShapeContext& context, const BagAttrs& bag) {
  EBB_ASSIGN_OR_RETURN(const TensorType* indices, Required(context, 1, "indices", Kind::kIndex));
  EBB_ASSIGN_OR_RETURN(const TensorType* offsets, Required(context, 2, "offsets", Kind::kIndex));
  EBB_RETURN_IF_ERROR(CheckRank("indices", *indices, 1, 1));
  EBB_RETURN_IF_ERROR(CheckRank("offsets", *offsets, 1, 1));
  if (indices->dtype != offsets->dtype) {
    return Invalid("indices are ", ToString(*indices), " and offsets ", ToString(*offsets),
                   ", they need one type");
  }
  if (!bag.include_last_offset) return offsets->shape[0];
  if (offsets->shape[0] < 1) return Invalid("offsets are empty, they need the last offset");
  return offsets->shape[0] - 1;
}

// EmbeddingBag(weight, indices, offsets) -> y
absl::StatusOr<Types> BagShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const BagAttrs bag = ReadBag(attrs);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* weight, Required(context, 0, "weight"));
  EBB_RETURN_IF_ERROR(CheckRank("weight", *weight, 2, 2));
  EBB_ASSIGN_OR_RETURN(const int64_t bags, BagsOf(context, bag));
  return Output(weight->dtype, {bags, weight->shape[1]});
}

// EmbeddingBagGrad(dy, indices, offsets) {..., shape} -> dweight
absl::StatusOr<Types> BagGradShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const BagAttrs bag = ReadBag(attrs);
  const Shape weight = attrs.Dims("shape");
  attrs.Check(weight.size() == 2, "shape has ", weight.size(), " dimensions, needs 2");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* dy, Required(context, 0, "dy"));
  EBB_ASSIGN_OR_RETURN(const int64_t bags, BagsOf(context, bag));
  EBB_RETURN_IF_ERROR(Exactly(context, 0, "dy", {dy->dtype, {bags, weight[1]}}));
  return Output(dy->dtype, weight);
}

absl::Status BagGrad(GradContext& grad) {
  if (!Wants(grad, 0) || !grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  Attrs attrs = node.attrs;
  attrs.Set("shape", ToInts(grad.type(node.inputs[0]).shape));
  EBB_ASSIGN_OR_RETURN(const ValueId dweight,
                       grad.Emit("EmbeddingBagGrad", {grad.dy(0), node.inputs[1], node.inputs[2]},
                                 std::move(attrs)));
  grad.SetGrad(0, dweight);
  return absl::OkStatus();
}

// An addition for every element of every row that is looked up.
Flops BagFlops(const Graph& graph, const Node& node) {
  return Product({InputElements(graph, node, 1), graph.value(node.outputs[0]).type.shape[1]});
}

}  // namespace

absl::Span<const OpDef> EmbeddingBags() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "EmbeddingBag",
       .min_inputs = 3,
       .max_inputs = 3,
       .shape = BagShape,
       .gradient = BagGrad,
       .flops = BagFlops},
      {.name = "EmbeddingBagGrad",
       .min_inputs = 3,
       .max_inputs = 3,
       .shape = BagGradShape,
       .flops = BagFlops},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
