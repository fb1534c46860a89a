// Convolution and its gradients.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Conv() { return {}; }

}  // namespace ebb::graph::ops
