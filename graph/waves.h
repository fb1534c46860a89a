// A step goes forward and then backward: once, or once a micro-batch (graph/micro_batch.h). Pure.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace ebb::graph {

// Forward and loss nodes [first, turn), then backward and update nodes [turn, end).
struct Wave {
  int first = 0, turn = 0, end = 0;
  bool Has(int node) const { return first <= node && node < end; }
  bool HasForward(int node) const { return first <= node && node < turn; }
};

// Together they cover all nodes in order. Only the first may lack forward nodes, only the last
// backward nodes.
std::vector<Wave> WavesOf(const Graph& graph);

}  // namespace ebb::graph
