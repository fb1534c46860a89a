// Comparisons, logic and tests of single numbers: bool results, through which no gradient flows.
#include <limits>

#include "base/status.h"
#include "model/onnx_ops.h"

namespace ebb::model {
namespace {

absl::Status Same(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId a, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId b, c.In(1));
  return c.Result(c.op(), {a, b});
}

absl::Status LessOrEqual(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId a, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId b, c.In(1));
  return c.Result("LessEqual", {a, b});
}

// a > b is b < a.
absl::Status Swapped(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId a, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId b, c.In(1));
  return c.Result(c.op() == "Greater" ? "Less" : "LessEqual", {b, a});
}

absl::Status Not(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  return c.Result("Not", {x});
}

absl::Status IsNaN(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(0));
  EBB_ASSIGN_OR_RETURN(const ValueId equal, c.Emit("Equal", {x, x}));
  return c.Result("Not", {equal});
}

absl::Status IsInf(ConvertContext& c) {
  const bool negative = c.Int("detect_negative", 1) != 0;
  const bool positive = c.Int("detect_positive", 1) != 0;
  EBB_ASSIGN_OR_RETURN(ValueId x, c.In(0));
  if (!negative && !positive) return c.Result("Less", {x, x});
  if (negative && positive) {
    EBB_ASSIGN_OR_RETURN(x, c.Emit("Abs", {x}));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return c.Result("Equal",
                  {x, c.Constant(ScalarTensor(c.type(0).dtype, positive ? infinity : -infinity))});
}

constexpr OnnxOp kRows[] = {{"Equal", 2, 2, kNoInputs, Same},
                            {"Less", 2, 2, kNoInputs, Same},
                            {"LessOrEqual", 2, 2, kNoInputs, LessOrEqual},
                            {"Greater", 2, 2, kNoInputs, Swapped},
                            {"GreaterOrEqual", 2, 2, kNoInputs, Swapped},
                            {"And", 2, 2, kNoInputs, Same},
                            {"Or", 2, 2, kNoInputs, Same},
                            {"Xor", 2, 2, kNoInputs, Same},
                            {"Not", 1, 1, kNoInputs, Not},
                            {"IsNaN", 1, 1, kNoInputs, IsNaN},
                            {"IsInf", 1, 1, kNoInputs, IsInf}};

}  // namespace

absl::Span<const OnnxOp> LogicOps() { return kRows; }

}  // namespace ebb::model
