// Graphs from short text, so that tests and dumps read like the networks they mean. ToText() of
// graph/graph.h writes the same grammar.
//
//   x = input f32[4,8]                 # roles: input, param, buffer, scalar
//   w = param f32[8,3]
//   m = slot f32[8,3] of w             # an optimizer slot and its parameter
//   c = constant f32[2] 1 2            # all elements, or one that fills the tensor
//   y = MatMul(x, w) {trans_b=0}       # attributes: 1, 0.5, [1,2] or "tanh"
//   z, mask = Dropout(y, ebb.rng)      # outputs left out get names of their own
//   g = Gemm(y, w, -)                  # "-": an absent optional input
//   dx = ReluGrad(dy, y) @backward y   # phase, and the node that makes y as mirror
//   SgdUpdate(w, dw, ebb.hyper) @update y
//   metric z                           # gives made values the role metric
//   output y, z
//
// A statement ends at the end of its line or at ';'; '#' starts a comment.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::graph {

// InvalidArgument names the line at fault; an op's own errors are passed on.
absl::StatusOr<Graph> ParseGraph(absl::string_view text);

}  // namespace ebb::graph
