// Selective recompute: saved tensors that are cheap to make again are made again right before
// backward reads them, so that they die in forward. A rewrite of a training graph, lowered or not;
// pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "graph/graph.h"

namespace ebb::graph {

struct RecomputeOptions {
  Bytes target;            // live peak at which to stop; 0: as far as it goes
  double most_cost = 0.0;  // at most this share of the step's cost
  // Microseconds of a node. The node may be one that is not in the graph yet: its operands and
  // results are values of the graph all the same.
  std::function<double(const Graph&, const Node&)> cost;
};

struct Recomputed {
  Graph graph;
  std::vector<std::string> values;  // that backward no longer reads, but makes again; in order
  Bytes live_peak_before, live_peak_after;
  double cost_us = 0;  // of the nodes that run twice
};

// Tensors are taken by bytes freed a microsecond, and kept only if the live peak really falls.
//
// A clone has phase backward and the mirror of the node before which it runs, reads what its
// original read (or clones of that), and draws the same random numbers (they are keyed by an
// attribute, the seed and the step). Nodes that write are never cloned; where the output of a
// BatchNorm is wanted again, BatchNormInference makes it from the statistics that the node left, so
// that running statistics are updated once a step. Values keep their ids and names; new ones are
// appended. All bits of a step stay as they were.
//
// InvalidArgument: options that make no sense, or a cost that is negative or not finite.
absl::StatusOr<Recomputed> Recompute(const Graph& training, const RecomputeOptions& options);

}  // namespace ebb::graph
