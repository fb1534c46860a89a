// State that lives on the host and visits a step's stack only around its uses: a graph rewrite.
// Pure.
//
// A streamed resident value gets one copy in the stack an interval of uses: made by a Fetch node at
// the front of the sub-model before the first use (so that the copy runs beside that sub-model's
// kernels), and, if the interval writes it, ended by a Store node at the end of the sub-model after
// the last use. To liveness and planning they are nodes like others; the runtime enqueues them as
// copies.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "graph/graph.h"

namespace ebb::graph {

struct NodeRange {
  int first = 0;  // node indices, inclusive
  int last = 0;
};

// What one sub-model copies and computes. In execution order its nodes are fetch_now, fetch_ahead,
// computed, store, store_last.
struct Traffic {
  std::vector<NodeId> fetch_now;    // read by this very sub-model: before its kernels
  std::vector<NodeId> fetch_ahead;  // read by the next: beside its kernels
  NodeRange computed;
  std::vector<NodeId> store;       // written by the sub-model before: beside its kernels
  std::vector<NodeId> store_last;  // written by this one, the last of the step: after its kernels
  bool copies() const {
    return !fetch_now.empty() || !fetch_ahead.empty() || !store.empty() || !store_last.empty();
  }
};

struct StreamedGraph {
  Graph graph;                        // the values of the source keep their ids
  std::vector<NodeRange> sub_models;  // with the copies
  std::vector<Traffic> traffic;       // of each
  Bytes fetched, stored;              // a step
};

// Consecutive uses of one resident value, served by one copy.
struct UseInterval {
  ValueId value;
  int first = 0;  // sub-models
  int last = 0;
  bool writes = false;
  // The sub-models beside which it is fetched and stored; the first and the last one do it for
  // themselves, before and after their kernels.
  int FetchedIn() const { return first == 0 ? 0 : first - 1; }
  int StoredIn(int sub_models) const { return last + 1 == sub_models ? last : last + 1; }
};
// Of the chosen values, in the order of their first use.
std::vector<UseInterval> FindIntervals(const Graph& graph, absl::Span<const NodeRange> sub_models,
                                       const std::vector<bool>& chosen);

// Rewrites `graph`, cut into `sub_models` that cover it in order, so that the resident values with
// streamed[id] are fetched and stored. Values that no node reads stay as they are. InvalidArgument:
// a streamed value is no parameter, slot or buffer.
absl::StatusOr<StreamedGraph> StreamState(const Graph& graph,
                                          absl::Span<const NodeRange> sub_models,
                                          const std::vector<bool>& streamed);

}  // namespace ebb::graph
