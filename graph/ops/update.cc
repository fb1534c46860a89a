// Optimizer updates.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Update() { return {}; }

}  // namespace ebb::graph::ops
