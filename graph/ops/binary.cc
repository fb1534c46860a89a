// Broadcasting binary ops, and the ops that undo broadcasting.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Binary() { return {}; }

}  // namespace ebb::graph::ops
