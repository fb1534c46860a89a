// Pooling and its gradients.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Pool() { return {}; }

}  // namespace ebb::graph::ops
