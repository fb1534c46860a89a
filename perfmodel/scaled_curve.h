// Curves of what was not measured, made of curves of what was. Pure.
#pragma once

#include "absl/status/statusor.h"
#include "perfmodel/curve.h"
#include "perfmodel/topology.h"

namespace ebb::perfmodel {

// Of other ranks: each time of `a` on the line through those of both curves over the bytes that a
// link carries. Beyond both curves it stays within a quarter of what the ratio of those bytes says.
absl::StatusOr<Curve> LineThrough(const Curve& a, const Curve& b, int64_t ranks);

// Of the kind, ranks and stride of `asked`: each time of `curve`, times the ratio of what the
// topology says of both at sizes that have a link carry as many bytes in either kind.
// Unimplemented: more ranks than the topology has GPUs.
absl::StatusOr<Curve> ByTopology(const Curve& curve, const Collective& asked,
                                 const Topology& topology);

}  // namespace ebb::perfmodel
