// The op table of the importer: one row an ONNX op. Rows live in onnx_ops_<family>.cc; they cover
// every spelling of the op in opsets 7 to 23. Ops that only the host evaluates (shape arithmetic)
// are rows of host_fold.h.
#pragma once

#include <string>
#include <vector>

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
absl::Span<const OnnxOp> MathOps();   // trigonometry, rounding, rarer activations
absl::Span<const OnnxOp> LogicOps();  // comparisons and logic
absl::Span<const OnnxOp> MatmulOps();
absl::Span<const OnnxOp> EinsumOps();
absl::Span<const OnnxOp> AttentionOps();
absl::Span<const OnnxOp> NnOps();    // convolution, pooling, dropout
absl::Span<const OnnxOp> NormOps();  // normalisation and softmax
absl::Span<const OnnxOp> MovementOps();
absl::Span<const OnnxOp> ImageOps();  // resizing, depth and space
absl::Span<const OnnxOp> IndexOps();  // gathers and scatters by index, TopK, ArgMax, CumSum
absl::Span<const OnnxOp> ReduceOps();
absl::Span<const OnnxOp> LossOps();
absl::Span<const OnnxOp> RecurrentOps();  // LSTM, GRU
absl::Span<const OnnxOp> EmbeddingBagOps();
absl::Span<const OnnxOp> SequenceOps();

// All of them.
std::vector<absl::Span<const OnnxOp>> OnnxFamilies();

// x padded with elements of its own: mode "reflect", "edge" or "wrap"; pads as the graph's Pad has
// them. x has the shape of input 0.
absl::StatusOr<ValueId> PadByInput(ConvertContext& c, const std::string& mode,
                                   const std::vector<int64_t>& pads, ValueId x);

}  // namespace ebb::model
