// Losses inside the graph.
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "model/onnx_ops.h"

namespace ebb::model {
namespace {

constexpr int64_t kNothingIgnored = -100;  // PyTorch's default, which no class has

absl::StatusOr<graph::Attrs> LossAttrs(const ConvertContext& c) {
  const std::string reduction = c.Str("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none") {
    return c.Invalid(absl::StrCat("reduction '", reduction, "' is unknown"));
  }
  return graph::Attrs{{"reduction", reduction},
                      {"ignore_index", c.Int("ignore_index", kNothingIgnored)}};
}

absl::StatusOr<std::vector<ValueId>> LossInputs(ConvertContext& c) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < 3; ++i) {
    if (!c.Has(i)) continue;
    EBB_ASSIGN_OR_RETURN(const ValueId x, c.In(i));
    inputs.push_back(x);
  }
  return inputs;
}

absl::Status SoftmaxCrossEntropyLoss(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(graph::Attrs attrs, LossAttrs(c));
  EBB_ASSIGN_OR_RETURN(std::vector<ValueId> inputs, LossInputs(c));
  EBB_ASSIGN_OR_RETURN(const std::vector<ValueId> outputs,
                       c.EmitAll("CrossEntropy", std::move(inputs), std::move(attrs)));
  c.SetOutput(0, outputs[0]);
  c.SetOutput(1, outputs[1]);
  return absl::OkStatus();
}

absl::Status NegativeLogLikelihoodLoss(ConvertContext& c) {
  EBB_ASSIGN_OR_RETURN(graph::Attrs attrs, LossAttrs(c));
  EBB_ASSIGN_OR_RETURN(std::vector<ValueId> inputs, LossInputs(c));
  return c.Result("NllLoss", std::move(inputs), std::move(attrs));
}

constexpr OnnxOp kRows[] = {
    {"SoftmaxCrossEntropyLoss", 2, 3, kFirstInput, SoftmaxCrossEntropyLoss},
    {"NegativeLogLikelihoodLoss", 2, 3, kFirstInput, NegativeLogLikelihoodLoss}};

}  // namespace

absl::Span<const OnnxOp> LossOps() { return kRows; }

}  // namespace ebb::model
