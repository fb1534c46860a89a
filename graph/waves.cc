#include "graph/waves.h"

namespace ebb::graph {

std::vector<Wave> WavesOf(const Graph& graph) {
  std::vector<Wave> waves;
  for (const Node& node : graph.nodes) {
    const int i = node.id.value();
    const bool forward = node.phase <= Phase::kLoss;
    if (waves.empty() || (forward && waves.back().turn < i)) waves.push_back({i, i, i});
    if (forward) waves.back().turn = i + 1;
    waves.back().end = i + 1;
  }
  return waves;
}

}  // namespace ebb::graph
