// Reductions.
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

absl::Status Reduce(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints axes, ReducedAxes(c));
  if (axes.empty() && c.op() != "ReduceL1" && c.op() != "ReduceL2" && c.op() != "ReduceSumSquare") {
    c.Alias(0);
    return absl::OkStatus();
  }
  if (axes.empty()) return c.Unimplemented("a reduction over no axes is not supported");
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  const graph::Attrs attrs{{"axes", axes}, {"keepdims", int64_t{c.Int("keepdims", 1) != 0}}};
  if (c.op() == "ReduceL1") {
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Abs", {x}));
    return c.Result("ReduceSum", {x}, attrs);
  }
  if (c.op() == "ReduceSumSquare" || c.op() == "ReduceL2") {
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Mul", {x, x}));
    if (c.op() == "ReduceSumSquare") return c.Result("ReduceSum", {x}, attrs);
    EBB_ASSIGN_OR_RETURN(x, c.Emit("ReduceSum", {x}, attrs));
    // The gradient of a norm at 0 is 0, as PyTorch has it: what is clipped passes none.
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Clip", {x}, {{"min", 1.2e-38}}));
    return c.Result("Sqrt", {x});
  }
  return c.Result(c.op(), {x}, attrs);
}

constexpr OnnxOp kRows[] = {
    {"ReduceSum", 1, 2, kFirstInput, Reduce},      {"ReduceMean", 1, 2, kFirstInput, Reduce},
    {"ReduceMax", 1, 2, kFirstInput, Reduce},      {"ReduceMin", 1, 2, kFirstInput, Reduce},
    {"ReduceL1", 1, 2, kFirstInput, Reduce},       {"ReduceL2", 1, 2, kFirstInput, Reduce},
    {"ReduceSumSquare", 1, 2, kFirstInput, Reduce}};

}  // namespace

absl::Span<const OnnxOp> ReduceOps() { return kRows; }

}  // namespace ebb::model
