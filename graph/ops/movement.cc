// Ops that move elements without computing.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Movement() { return {}; }

}  // namespace ebb::graph::ops
