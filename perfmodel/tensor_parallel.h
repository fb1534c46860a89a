// Tensor parallelism of pairs of linear layers (Shoeybi et al., "Megatron-LM", 2019): the first is
// cut by columns, what lies between works on a share of the features or heads, the second is cut by
// rows, and its results are summed between the ranks. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"
#include "perfmodel/work.h"

namespace ebb::perfmodel {

// `work` of one of `ranks` ranks: of a product, the one of n, m, k that is `dimension` (the first
// of them that is); of everything else, and of products in batches, its elements.
Work CutProduct(Work work, int64_t dimension, int64_t ranks);
Work CutElements(Work work, int64_t ranks);

struct TensorSplit {
  struct NodeCut {
    bool cut = false;
    int64_t dimension = 0;    // of a linear layer and its gradients: what is cut; 0: elements
    double reduce_bytes = 0;  // all-reduced between the ranks after the node
  };
  std::vector<NodeCut> nodes;  // by NodeId
  std::vector<bool> values;    // by ValueId: a rank holds a share; parameters and their slots too
  int64_t pairs = 0;           // linear layers cut by rows
};

// Which layers of a training graph (or a forward one) can be cut in `ranks`. Layers are cut by
// columns where everything that reads them, up to layers that are then cut by rows, treats features
// or heads apart: elementwise ops, dropout, transposes, slices, products in batches and what
// follows them (softmax). All others (normalisation over features, embeddings, losses, a head
// without a second layer) every rank does whole. Results are reduced after the row-cut layer, and
// gradients once for each input of column-cut layers.
TensorSplit SplitTensors(const graph::Graph& graph, int64_t ranks);

}  // namespace ebb::perfmodel
