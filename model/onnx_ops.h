// The op table of the importer: one row an ONNX op. Rows live in onnx_ops_<family>.cc; they cover
// every spelling of the op in opsets 7 to 23. Ops that only the host evaluates (shape arithmetic)
// are rows of host_fold.h.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model/onnx_context.h"

namespace ebb::model {

inline constexpr int kMinOpset = 7;
inline constexpr int kMaxOpset = 23;

// Sets of inputs, a bit each; bit 31 stands for all from 31 on.
inline constexpr uint32_t kNoInputs = 0;
inline constexpr uint32_t kFirstInput = 1;
inline constexpr uint32_t kAllInputs = ~uint32_t{0};

struct OnnxOp {
  absl::string_view name;
  int min_inputs = 1;
  int max_inputs = 1;                    // -1: any number
  uint32_t differentiable = kAllInputs;  // inputs that a gradient reaches
  absl::Status (*convert)(ConvertContext&) = nullptr;
};

// Null when no row has the name.
const OnnxOp* FindOnnxOp(absl::string_view name);

// What to do about an op that is not supported.
std::string AdviceFor(absl::string_view op);

absl::Span<const OnnxOp> ElementwiseOps();
absl::Span<const OnnxOp> MatmulOps();
absl::Span<const OnnxOp> NnOps();    // convolution, pooling, dropout
absl::Span<const OnnxOp> NormOps();  // normalisation and softmax
absl::Span<const OnnxOp> MovementOps();
absl::Span<const OnnxOp> ReduceOps();
absl::Span<const OnnxOp> LossOps();
absl::Span<const OnnxOp> RecurrentOps();  // LSTM, GRU
absl::Span<const OnnxOp> EmbeddingBagOps();
absl::Span<const OnnxOp> SequenceOps();

}  // namespace ebb::model
