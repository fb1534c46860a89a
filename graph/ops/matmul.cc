// Matrix products.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Matmul() { return {}; }

}  // namespace ebb::graph::ops
