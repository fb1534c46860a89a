// MatMul (with one-dimensional operands) and Gemm; a transposed operand becomes a flag.
#include "base/status.h"
#include "model/onnx_ops.h"

namespace ebb::model {
namespace {

absl::Status MatMul(ConvertContext& c) {
  if (c.rank(0) == 0 || c.rank(1) == 0) return c.Invalid("a scalar is no matrix");
  EBB_ASSIGN_OR_RETURN(ConvertContext::Operand a, c.InMaybeTransposed(0));
  EBB_ASSIGN_OR_RETURN(ConvertContext::Operand b, c.InMaybeTransposed(1));
  const bool a_vector = c.rank(0) == 1;
  const bool b_vector = c.rank(1) == 1;
  if (a_vector) {
    EBB_ASSIGN_OR_RETURN(
        a.id, c.Emit("Reshape", {a.id}, {{"shape", std::vector<int64_t>{1, c.shape(0)[0]}}}));
  }
  if (b_vector) {
    EBB_ASSIGN_OR_RETURN(
        b.id, c.Emit("Reshape", {b.id}, {{"shape", std::vector<int64_t>{c.shape(1)[0], 1}}}));
  }
  const graph::Attrs attrs{{"trans_a", int64_t{a.transposed}}, {"trans_b", int64_t{b.transposed}}};
  if (!a_vector && !b_vector) return c.Result("MatMul", {a.id, b.id}, attrs);
  EBB_ASSIGN_OR_RETURN(const ValueId product, c.Emit("MatMul", {a.id, b.id}, attrs));
  Shape shape = c.TypeOf(product).shape;
  if (b_vector) shape.erase(shape.end() - 1);
  if (a_vector) shape.erase(shape.end() - (b_vector ? 1 : 2));
  return c.Result("Reshape", {product},
                  {{"shape", std::vector<int64_t>(shape.begin(), shape.end())}});
}

absl::Status Gemm(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ConvertContext::Operand a, c.InMaybeTransposed(0));
  ConvertContext::Operand b;
  if (c.host(1) != nullptr) {
    EBB_ASSIGN_OR_RETURN(b.id, c.Weight(1));
  } else {
    EBB_ASSIGN_OR_RETURN(b, c.InMaybeTransposed(1));
  }
  std::vector<ValueId> inputs = {a.id, b.id};
  if (c.Has(2)) {
    EBB_ASSIGN_OR_RETURN(const ValueId bias, c.Weight(2));
    inputs.push_back(bias);
  }
  return c.Result("Gemm", std::move(inputs),
                  {{"trans_a", int64_t{(c.Int("transA", 0) != 0) != a.transposed}},
                   {"trans_b", int64_t{(c.Int("transB", 0) != 0) != b.transposed}},
                   {"alpha", c.Float("alpha", 1)},
                   {"beta", c.Float("beta", 1)}});
}

constexpr OnnxOp kRows[] = {{"MatMul", 2, 2, kAllInputs, MatMul}, {"Gemm", 2, 3, kAllInputs, Gemm}};

}  // namespace

absl::Span<const OnnxOp> MatmulOps() { return kRows; }

}  // namespace ebb::model
