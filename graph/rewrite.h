// Building one graph out of another: which nodes matter, and copying them with new ids.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "graph/graph.h"

namespace ebb::graph {

// Per node: does one of `roots` depend on it?
std::vector<bool> LiveNodes(const Graph& graph, absl::Span<const ValueId> roots);

struct GraphCopy {
  Graph graph;
  std::vector<ValueId> map;  // per value of the source: its copy, invalid if there is none
};

// Copies the values that no node makes: inputs, parameters, slots and buffers all, constants and
// scalars only if one of the `live` nodes reads them.
GraphCopy CopyLeaves(const Graph& from, const std::vector<bool>& live);

// Appends a copy of `node`, whose inputs have been copied, and maps its outputs.
absl::Status CopyNode(const Graph& from, const Node& node, GraphCopy& copy);

// The copies of `ids`; absent inputs stay absent.
std::vector<ValueId> Mapped(const GraphCopy& copy, absl::Span<const ValueId> ids);

}  // namespace ebb::graph
