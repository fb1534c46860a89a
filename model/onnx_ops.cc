// Looking up the importer's rows, and advice about ops that have none.
#include "model/onnx_ops.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"

namespace ebb::model {

std::vector<absl::Span<const OnnxOp>> OnnxFamilies() {
  return {ElementwiseOps(), MathOps(),      LogicOps(),        MatmulOps(),
          EinsumOps(),      AttentionOps(), NnOps(),           NormOps(),
          MovementOps(),    ImageOps(),     IndexOps(),        ReduceOps(),
          LossOps(),        RecurrentOps(), EmbeddingBagOps(), SequenceOps()};
}

const OnnxOp* FindOnnxOp(absl::string_view name) {
  static const auto* const table = [] {
    auto* rows = new absl::flat_hash_map<absl::string_view, const OnnxOp*>();
    for (absl::Span<const OnnxOp> family : OnnxFamilies()) {
      for (const OnnxOp& row : family) rows->emplace(row.name, &row);
    }
    return rows;
  }();
  const auto it = table->find(name);
  return it == table->end() ? nullptr : it->second;
}

namespace {
std::string Bags() {
  return "nn.EmbeddingBag is read from torch.onnx.export(..., dynamo=False), mode \"sum\" or "
         "\"mean\" without per_sample_weights; elsewhere write nn.Embedding(...)(x).sum(1)";
}
}  // namespace

std::string AdviceFor(absl::string_view op) {
  if (op == "Loop" || op == "If" || op == "Scan") {
    return "Control flow has no fixed schedule: replace loops and data-dependent branches by fixed "
           "sizes (torch.export or torch.jit.trace unroll them). x.squeeze(dim) becomes an If "
           "where "
           "the exporter does not know the size: write x[:, 0] or x.reshape(...). " +
           Bags();
  }
  if (absl::StartsWith(op, "Sequence") || absl::StartsWith(op, "Optional") ||
      absl::StrContains(op, "Sequence")) {
    return "Sequences and optionals are not supported: export tensors only (torch.stack or "
           "torch.cat instead of lists). " +
           Bags();
  }
  if (op == "RNN") {
    return "Of the recurrent layers LSTM and GRU are supported: use nn.LSTM or nn.GRU, or unroll "
           "the cell over fixed steps";
  }
  if (absl::StrContains(op, "Quantize") || absl::StrContains(op, "Integer") ||
      absl::StartsWith(op, "QLinear")) {
    return "Quantised models cannot be trained: export the float model";
  }
  return "Export that part with other ops (docs/model.md lists those that Ebb knows), or leave it "
         "out of the model";
}

}  // namespace ebb::model
