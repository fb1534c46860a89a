// A value seen as runs of the elements of others, in row-major order: what Concat, Slice and
// Reshape have put together. The exporters of recurrent layers cut weights up and join the pieces
// in another order; who reads the result may read the weight instead.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/graph.h"

namespace ebb::model {

struct Run {
  ValueId source;
  int64_t begin = 0;  // elements
  int64_t count = 0;
  bool operator==(const Run&) const = default;
};

// The runs of all of `value`; one run of itself where no such node has made it. Neighbours that
// belong together are one run.
std::vector<Run> RunsOf(const graph::Graph& graph, ValueId value);

// The runs of `count` elements from `begin` on, which must lie within `runs`.
std::vector<Run> PartOf(const std::vector<Run>& runs, int64_t begin, int64_t count);

}  // namespace ebb::model
