// Which bytes a step needs when. Values of the stack plan are joined into buffers (views, and
// outputs written in place over an input that dies), each with its first and last node.
#pragma once

#include <vector>

#include "base/ids.h"
#include "base/units.h"
#include "graph/graph.h"

namespace ebb::graph {

enum class BufferClass : uint8_t { kInput, kSaved, kTransient, kStreamed };
absl::string_view Name(BufferClass cls);

struct Buffer {
  Bytes bytes;
  int first = 0;  // node index at which it comes to life; inputs: 0
  int last = 0;   // last node that reads or writes it (>= first)
  // kSaved: made in forward or loss, last used in backward or update. kStreamed: a fetched state.
  BufferClass cls = BufferClass::kTransient;
  std::vector<ValueId> values;
};

struct Liveness {
  std::vector<Buffer> buffers;
  // Per value: index into buffers, or -1: resident, a view of a resident value, or an input that no
  // node reads.
  std::vector<int> buffer_of;
  // Per value: the resident value whose bytes a view shows (a Reshape of a parameter), else
  // invalid.
  std::vector<ValueId> alias_of;
};

// Expects a graph that passes Verify(). Inputs live from node 0, `graph.outputs` to the last node,
// and an output that nobody reads at its own node.
Liveness ComputeLiveness(const Graph& graph);

// The largest sum of live buffers over the nodes: the lower bound of any plan's peak.
Bytes LivePeak(const Liveness& liveness, int num_nodes);

}  // namespace ebb::graph
