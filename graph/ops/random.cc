// Random ops.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Random() { return {}; }

}  // namespace ebb::graph::ops
