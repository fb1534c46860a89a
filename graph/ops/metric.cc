// Metrics, as sums and counts.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Metric() { return {}; }

}  // namespace ebb::graph::ops
