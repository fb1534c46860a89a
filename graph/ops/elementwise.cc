// Elementwise ops of one input, and their gradients.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Elementwise() { return {}; }

}  // namespace ebb::graph::ops
