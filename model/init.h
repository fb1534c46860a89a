// Initial weights drawn in the daemon (`reinit`), so that trials share one graph and differ in
// seeds.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::model {

// pattern (glob over parameter names) -> "default" (PyTorch's own for the layer),
// "kaiming_uniform", "kaiming_normal", "xavier_uniform", "xavier_normal", "zeros", "ones",
// "normal:STD". Later rules win.
struct ReinitRule {
  std::string pattern;
  std::string scheme;
};

// Replaces matching entries of `weights` by draws from Philox keyed (seed, hash of the parameter's
// name), so that the order of parameters does not matter. Fan-in and fan-out come from the op that
// uses the parameter (Conv, Gemm, MatMul with their transposes; biases take the fan-in of their
// layer). BatchNorm scale and bias become 1 and 0, statistics 0 and 1 under "default". A rule that
// matches no parameter is InvalidArgument. What no rule draws keeps its value, or has none.
absl::Status Reinitialize(const graph::Graph& forward, const std::vector<ReinitRule>& rules,
                          uint64_t seed, graph::TensorMap* weights);

// The errors of Reinitialize() without drawing anything.
absl::Status CheckRules(const graph::Graph& forward, const std::vector<ReinitRule>& rules);

}  // namespace ebb::model
