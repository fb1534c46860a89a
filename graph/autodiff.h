// Reverse-mode differentiation, source to source: appends backward nodes to the graph they
// differentiate.
#pragma once

#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"

namespace ebb::graph {

// Called once for each wanted value whose gradient exists, as soon as that is final: `mirror` is
// the forward node that completed it. No backward node appended later reads the value.
using OnGradient = std::function<absl::Status(ValueId value, ValueId gradient, NodeId mirror)>;

// Appends to `graph` the gradients of the one-element float value `loss` with respect to the float
// values for which `wanted` (per value) is true, and what is needed in between; nothing else. The
// gradients of a value that is used several times are added in the order of the uses. Returns the
// gradient per value of the graph before the call, invalid where there is none.
// Unimplemented names a node on the way whose op is not differentiable.
absl::StatusOr<std::vector<ValueId>> AppendBackward(Graph& graph, ValueId loss,
                                                    const std::vector<bool>& wanted,
                                                    const OnGradient& on_gradient);

}  // namespace ebb::graph
