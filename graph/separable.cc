#include "graph/separable.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/loss.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

absl::Status Refuse(const Node& node, absl::string_view why) {
  return absl::UnimplementedError(
      absl::StrCat("node '", node.name, "' (", node.op->name, "): ", why));
}

// Along how many dimensions the value grows with the batch; -1: shapes that do not fit the batches.
int Growing(const Shape& whole, const Shape& part, int parts) {
  if (whole.size() != part.size()) return -1;
  int growing = 0;
  for (size_t d = 0; d < whole.size(); ++d) {
    if (whole[d] == part[d]) continue;
    if (whole[d] != part[d] * parts) return -1;
    ++growing;
  }
  return growing;
}

// The loss, and what shows it in another shape.
void MarkLoss(const Graph& graph, ValueId loss, std::vector<bool>& marks) {
  marks[loss.index()] = true;
  const NodeId producer = graph.value(loss).producer;
  if (producer.valid() && graph.node(producer).op->is_view) {
    MarkLoss(graph, graph.node(producer).inputs[0], marks);
  }
}

}  // namespace

absl::Status CheckSeparable(const Graph& whole, const Graph& part, const TrainingOptions& training,
                            int parts) {
  EBB_ASSIGN_OR_RETURN(const ValueId output, FindLossOutput(part, training.loss));
  std::vector<bool> is_loss(part.values.size());
  if (training.loss.kind == LossKind::kGraphOutput) MarkLoss(part, output, is_loss);
  std::vector<bool> depends(part.values.size());  // on an input
  for (const Value& value : part.values) depends[value.id.index()] = value.role == Role::kInput;
  for (size_t i = 0; i < part.nodes.size(); ++i) {
    const Node& node = part.nodes[i];
    if (i >= whole.nodes.size() || whole.nodes[i].op != node.op ||
        whole.nodes[i].outputs.size() != node.outputs.size()) {
      return Refuse(node, "the model has other nodes when the batch is larger");
    }
    const bool reads = std::any_of(node.inputs.begin(), node.inputs.end(), [&](ValueId input) {
      return input.valid() && depends[input.index()];
    });
    if (!reads) continue;
    for (size_t k = 0; k < node.outputs.size(); ++k) {
      const Value& value = part.value(node.outputs[k]);
      depends[value.id.index()] = true;
      const int growing =
          Growing(whole.value(whole.nodes[i].outputs[k]).type.shape, value.type.shape, parts);
      if (growing == 1 || (growing == 0 && is_loss[value.id.index()])) continue;
      return Refuse(node, growing == 0
                              ? "its result has no place for each sample of the batch"
                              : "its result relates the samples of the batch to each other");
    }
  }
  return absl::OkStatus();
}

}  // namespace ebb::graph
