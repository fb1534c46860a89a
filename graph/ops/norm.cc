// Normalisation and softmax.
#include "graph/op.h"

namespace ebb::graph::ops {

absl::Span<const OpDef> Norm() { return {}; }

}  // namespace ebb::graph::ops
