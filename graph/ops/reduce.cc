// Reductions.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Reduce() { return {}; }

}  // namespace ebb::graph::ops
