// nn.EmbeddingBag as PyTorch's TorchScript exporter writes it: a Loop over the bags, whose body
// looks up the rows of one bag and adds them.
#pragma once

#include "model/onnx_proto.h"

namespace ebb::model {

// The op that such a Loop becomes; no file has it. Its inputs are weight, indices, the first and
// the end of every bag, the number of bags, the loop's condition, and the axes of the cut; its
// attribute `mode` is "sum" or "mean".
inline constexpr char kEmbeddingBagOp[] = "ebb.EmbeddingBag";

// Makes one node of every such Loop of the graph. What looks otherwise stays, and is refused later.
void ReplaceEmbeddingBags(onnx::GraphProto* graph);

}  // namespace ebb::model
