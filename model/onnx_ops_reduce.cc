// Reductions.
#include "base/status.h"
#include "model/onnx_ops.h"
#include "model/onnx_shapes.h"

namespace ebb::model {
namespace {

// Is the reduction of nothing the input itself?
bool IsIdentityOverNothing(absl::string_view op) {
  return op != "ReduceL1" && op != "ReduceL2" && op != "ReduceSumSquare" && op != "ReduceLogSum";
}

// log(sum(e^(x - m))) + m. The shift m is the largest element rounded down, which keeps e^ in
// range and passes no gradient.
absl::Status LogSumExp(ConvertContext& c, ValueId x, const graph::Attrs& attrs) {
  graph::Attrs kept = attrs;
  kept.Set("keepdims", int64_t{1});
  EBB_ASSIGN_OR_RETURN(const ValueId most, c.Emit("ReduceMax", {x}, kept));
  EBB_ASSIGN_OR_RETURN(ValueId shift, c.Emit("Floor", {most}));
  EBB_ASSIGN_OR_RETURN(const ValueId shifted, c.Emit("Sub", {x, shift}));
  EBB_ASSIGN_OR_RETURN(const ValueId exp, c.Emit("Exp", {shifted}));
  EBB_ASSIGN_OR_RETURN(const ValueId sum, c.Emit("ReduceSum", {exp}, attrs));
  EBB_ASSIGN_OR_RETURN(const ValueId log, c.Emit("Log", {sum}));
  const Shape& shape = c.TypeOf(log).shape;
  EBB_ASSIGN_OR_RETURN(shift,
                       c.Emit("Reshape", {shift}, {{"shape", Ints(shape.begin(), shape.end())}}));
  return c.Result("Add", {log, shift});
}

// Extremes of bytes and flags are those of integers.
absl::Status OfBytes(ConvertContext& c, ValueId x, const graph::Attrs& attrs) {
  EBB_ASSIGN_OR_RETURN(x, c.Emit("Cast", {x}, {{"to", std::string("i32")}}));
  EBB_ASSIGN_OR_RETURN(x, c.Emit(c.op(), {x}, attrs));
  return c.Result("Cast", {x}, {{"to", std::string(graph::Name(c.type(0).dtype))}});
}

absl::Status Reduce(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const Ints axes, ReducedAxes(c));
  if (axes.empty() && IsIdentityOverNothing(c.op())) {
    c.Alias(0);
    return absl::OkStatus();
  }
  if (axes.empty()) return c.Unimplemented("a reduction over no axes is not supported");
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  const graph::Attrs attrs{{"axes", axes}, {"keepdims", int64_t{c.Int("keepdims", 1) != 0}}};
  const DType dtype = c.type(0).dtype;
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
  if (c.op() == "ReduceLogSum") {
    EBB_ASSIGN_OR_RETURN(x, c.Emit("ReduceSum", {x}, attrs));
    return c.Result("Log", {x});
  }
  if (c.op() == "ReduceLogSumExp") return LogSumExp(c, x, attrs);
  const bool extreme = c.op() == "ReduceMax" || c.op() == "ReduceMin";
  if (extreme && (dtype == DType::kBool || dtype == DType::kU8)) return OfBytes(c, x, attrs);
  return c.Result(c.op(), {x}, attrs);
}

constexpr OnnxOp kRows[] = {
    {"ReduceSum", 1, 2, kFirstInput, Reduce},    {"ReduceMean", 1, 2, kFirstInput, Reduce},
    {"ReduceMax", 1, 2, kFirstInput, Reduce},    {"ReduceMin", 1, 2, kFirstInput, Reduce},
    {"ReduceProd", 1, 2, kFirstInput, Reduce},   {"ReduceL1", 1, 2, kFirstInput, Reduce},
    {"ReduceL2", 1, 2, kFirstInput, Reduce},     {"ReduceSumSquare", 1, 2, kFirstInput, Reduce},
    {"ReduceLogSum", 1, 2, kFirstInput, Reduce}, {"ReduceLogSumExp", 1, 2, kFirstInput, Reduce}};

}  // namespace

absl::Span<const OnnxOp> ReduceOps() { return kRows; }

}  // namespace ebb::model
