// ebb.v1.Graph <-> graph::Graph. The wire form is hostile input: what comes out has passed
// graph::Verify and holds nothing but forward ops.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ebb/v1/graph.pb.h"
#include "graph/graph.h"

namespace ebb::daemon {

// `batch_size`: what axis 0 of every input must be. InvalidArgument names the value or node.
absl::StatusOr<graph::Graph> GraphFromBytes(absl::string_view bytes, int64_t batch_size);
absl::StatusOr<graph::Graph> GraphFromWire(const v1::Graph& wire, int64_t batch_size);

// A forward graph; the wire form gives the same graph back.
v1::Graph GraphToWire(const graph::Graph& graph);

}  // namespace ebb::daemon
