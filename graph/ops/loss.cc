// Losses and their gradients.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Loss() { return {}; }

}  // namespace ebb::graph::ops
