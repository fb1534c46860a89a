// Evaluation of ONNX nodes on the host while importing: shape arithmetic, masks, constants. One
// function an op; the table in host_fold.cc is the only list.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "model/host_tensor.h"
#include "model/onnx_node.h"

namespace ebb::model {

// All present inputs are known on the host (ops that read types only ask for no values).
using FoldFn = absl::StatusOr<std::vector<HostTensor>> (*)(const NodeView& node,
                                                           HostBudget& budget);

struct FoldRow {
  absl::string_view op;
  FoldFn fold;
  int min_inputs;
  int max_inputs;           // -1: any number
  bool types_only = false;  // reads no values: may be folded whatever is known
};

// Null when the host cannot evaluate such an op.
const FoldRow* FindFold(absl::string_view op);

// Families.
absl::Span<const FoldRow> FoldArith();    // host_fold_arith.cc
absl::Span<const FoldRow> FoldUnaries();  // host_fold_unary.cc
absl::Span<const FoldRow> FoldMove();     // host_fold_move.cc

}  // namespace ebb::model
