#include "graph/tf32.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/string_view.h"
#include "graph/op.h"

namespace ebb::graph {

Graph AllowTf32(Graph forward) {
  // A transposed convolution is a ConvGradInput.
  constexpr std::array<absl::string_view, 4> kOps = {"Conv", "ConvGradInput", "Gemm", "MatMul"};
  for (Node& node : forward.nodes) {
    if (std::find(kOps.begin(), kOps.end(), node.op->name) == kOps.end()) continue;
    if (forward.value(node.outputs[0]).type.dtype == DType::kF32)
      node.attrs.Set("tf32", int64_t{1});
  }
  return forward;
}

}  // namespace ebb::graph
