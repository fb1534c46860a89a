// Matrix products.
#include "graph/ops/common.h"

namespace ebb::graph::ops {
namespace {

// Rows, columns of op(x): the last two axes, swapped when transposed.
struct Matrix {
  int64_t rows, cols;
};
Matrix LastTwo(const Shape& shape, bool transposed) {
  const int64_t rows = shape[shape.size() - 2], cols = shape[shape.size() - 1];
  return transposed ? Matrix{cols, rows} : Matrix{rows, cols};
}
Shape Leading(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }
bool Flag(const Node& node, absl::string_view name) { return node.attrs.Int(name, 0) != 0; }

absl::Status CheckInner(const TensorType& a, bool trans_a, const TensorType& b, bool trans_b) {
  if (a.dtype == b.dtype && LastTwo(a.shape, trans_a).cols == LastTwo(b.shape, trans_b).rows) {
    return absl::OkStatus();
  }
  return Invalid("a is ", ToString(a), trans_a ? " (transposed)" : "", " and b is ", ToString(b),
                 trans_b ? " (transposed)" : "",
                 ", they need one type and as many columns in a as rows in b");
}

absl::StatusOr<Types> MatMulShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const bool trans_a = attrs.Flag("trans_a"), trans_b = attrs.Flag("trans_b");
  attrs.Flag("tf32");
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* a, Required(context, 0, "a"));
  EBB_ASSIGN_OR_RETURN(const TensorType* b, Required(context, 1, "b"));
  EBB_RETURN_IF_ERROR(CheckRank("a", *a, 2));
  EBB_RETURN_IF_ERROR(CheckRank("b", *b, 2));
  EBB_RETURN_IF_ERROR(CheckInner(*a, trans_a, *b, trans_b));
  std::optional<Shape> shape = BroadcastShapes(Leading(a->shape), Leading(b->shape));
  if (!shape) {
    return Invalid("a is ", ToString(*a), " and b is ", ToString(*b),
                   ", their leading axes do not broadcast");
  }
  shape->push_back(LastTwo(a->shape, trans_a).rows);
  shape->push_back(LastTwo(b->shape, trans_b).cols);
  return Output(a->dtype, *std::move(shape));
}

absl::StatusOr<Types> GemmShape(const ShapeContext& context) {
  AttrReader attrs(context.attrs);
  const bool trans_a = attrs.Flag("trans_a"), trans_b = attrs.Flag("trans_b");
  attrs.Flag("tf32");
  attrs.Float("alpha", 1);
  attrs.Float("beta", 1);
  EBB_RETURN_IF_ERROR(attrs.Finish());
  EBB_ASSIGN_OR_RETURN(const TensorType* a, Required(context, 0, "a"));
  EBB_ASSIGN_OR_RETURN(const TensorType* b, Required(context, 1, "b"));
  EBB_ASSIGN_OR_RETURN(const TensorType* c, Optional(context, 2, "c"));
  EBB_RETURN_IF_ERROR(CheckRank("a", *a, 2, 2));
  EBB_RETURN_IF_ERROR(CheckRank("b", *b, 2, 2));
  EBB_RETURN_IF_ERROR(CheckInner(*a, trans_a, *b, trans_b));
  const Shape shape = {LastTwo(a->shape, trans_a).rows, LastTwo(b->shape, trans_b).cols};
  if (c != nullptr && (c->dtype != a->dtype || BroadcastShapes(c->shape, shape) != shape)) {
    return Invalid("c is ", ToString(*c), ", needs to broadcast to ",
                   ToString(TensorType{a->dtype, shape}));
  }
  return Output(a->dtype, shape);
}

// ---- Gradients. With y = op(a) op(b): d op(a) = dy op(b)^T, d op(b) = op(a)^T dy; the transposed
// cases give the transposed products, which the flags absorb.

struct Product2 {
  ValueId left, right;
  bool trans_left, trans_right;
};
Product2 GradOfA(ValueId dy, ValueId b, bool trans_a, bool trans_b) {
  if (trans_a) return {b, dy, trans_b, true};
  return {dy, b, false, !trans_b};
}
Product2 GradOfB(ValueId dy, ValueId a, bool trans_a, bool trans_b) {
  if (trans_b) return {dy, a, true, trans_a};
  return {a, dy, !trans_a, false};
}

absl::StatusOr<ValueId> Emit(GradContext& grad, absl::string_view op, const Product2& product,
                             Attrs attrs = {}) {
  attrs.Set("trans_a", int64_t{product.trans_left});
  attrs.Set("trans_b", int64_t{product.trans_right});
  return grad.Emit(op, {product.left, product.right}, std::move(attrs));
}

// What the products of the gradient take over.
Attrs PrecisionOf(const Node& node) {
  return Flag(node, "tf32") ? Attrs{{"tf32", int64_t{1}}} : Attrs();
}

// A weight that all matrices of a batch share (a linear layer over [batch, time, features]): one
// product over all rows, rather than a product a matrix and their sum.
absl::Status SharedWeightGrad(GradContext& grad, bool trans_b) {
  const ValueId a = grad.node().inputs[0], b = grad.node().inputs[1];
  const auto flat = [&](ValueId value) {
    const Shape& shape = grad.type(value).shape;
    const int64_t cols = shape.back();
    const int64_t rows = NumElements(Shape(shape.begin(), shape.end() - 1));
    return Reshaped(grad, value, {rows, cols});
  };
  EBB_ASSIGN_OR_RETURN(const ValueId rows, flat(a));
  EBB_ASSIGN_OR_RETURN(const ValueId dy, flat(grad.dy(0)));
  EBB_ASSIGN_OR_RETURN(ValueId db, Emit(grad, "MatMul", GradOfB(dy, rows, false, trans_b),
                                        PrecisionOf(grad.node())));
  EBB_ASSIGN_OR_RETURN(db, Reshaped(grad, db, grad.type(b).shape));
  grad.SetGrad(1, db);
  return absl::OkStatus();
}

absl::Status MatMulGrad(GradContext& grad) {
  if (!grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  const ValueId a = node.inputs[0], b = node.inputs[1], dy = grad.dy(0);
  const bool trans_a = Flag(node, "trans_a"), trans_b = Flag(node, "trans_b");
  if (Wants(grad, 0)) {
    EBB_ASSIGN_OR_RETURN(const ValueId da,
                         Emit(grad, "MatMul", GradOfA(dy, b, trans_a, trans_b), PrecisionOf(node)));
    EBB_RETURN_IF_ERROR(SetGradSummed(grad, 0, da));
  }
  if (!Wants(grad, 1)) return absl::OkStatus();
  const bool shared = NumElements(Leading(grad.type(b).shape)) == 1;
  const bool covers = Leading(grad.type(a).shape) == Leading(grad.type(dy).shape);
  if (shared && covers && !trans_a && grad.type(a).shape.size() > 2) {
    return SharedWeightGrad(grad, trans_b);
  }
  EBB_ASSIGN_OR_RETURN(const ValueId db,
                       Emit(grad, "MatMul", GradOfB(dy, a, trans_a, trans_b), PrecisionOf(node)));
  return SetGradSummed(grad, 1, db);
}

absl::Status GemmGrad(GradContext& grad) {
  if (!grad.dy(0).valid()) return absl::OkStatus();
  const Node node = grad.node();
  const ValueId a = node.inputs[0], b = node.inputs[1], dy = grad.dy(0);
  const bool trans_a = Flag(node, "trans_a"), trans_b = Flag(node, "trans_b");
  Attrs attrs = PrecisionOf(node);
  attrs.Set("alpha", node.attrs.Float("alpha", 1));
  if (Wants(grad, 0)) {
    EBB_ASSIGN_OR_RETURN(const ValueId da,
                         Emit(grad, "Gemm", GradOfA(dy, b, trans_a, trans_b), attrs));
    grad.SetGrad(0, da);
  }
  if (Wants(grad, 1)) {
    EBB_ASSIGN_OR_RETURN(const ValueId db,
                         Emit(grad, "Gemm", GradOfB(dy, a, trans_a, trans_b), attrs));
    grad.SetGrad(1, db);
  }
  if (!Wants(grad, 2)) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(ValueId dc, SummedTo(grad, dy, grad.type(node.inputs[2]).shape));
  if (const double beta = node.attrs.Float("beta", 1); beta != 1) {
    EBB_ASSIGN_OR_RETURN(dc, grad.Emit("Scale", {dc}, {{"scale", beta}}));
  }
  grad.SetGrad(2, dc);
  return absl::OkStatus();
}

Flops MatMulFlops(const Graph& graph, const Node& node) {
  const Shape& a = graph.value(node.inputs[0]).type.shape;
  return Product({2, OutputElements(graph, node, 0), LastTwo(a, Flag(node, "trans_a")).cols});
}

}  // namespace

absl::Span<const OpDef> Matmul() {
  static const auto* const rows = new std::vector<OpDef>{
      {.name = "MatMul",
       .min_inputs = 2,
       .max_inputs = 2,
       .shape = MatMulShape,
       .gradient = MatMulGrad,
       .flops = MatMulFlops},
      {.name = "Gemm",
       .min_inputs = 2,
       .max_inputs = 3,
       .shape = GemmShape,
       .gradient = GemmGrad,
       .flops = MatMulFlops},
  };
  return *rows;
}

}  // namespace ebb::graph::ops
