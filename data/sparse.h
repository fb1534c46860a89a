// Sparse features: rows of as many numbers as each has, such as the categories of a user. Graphs
// have fixed shapes, so rows are padded to one length. Stateless.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/units.h"
#include "data/dataset.h"
#include "graph/types.h"

namespace ebb::data {

// InvalidArgument: a rule without a name, or with a length that is no length.
absl::Status CheckSparseRules(absl::Span<const SparseRule> rules);

// A feature NAME is the integers NAME.indices, row after row, with NAME.offsets: where each row
// begins, as PyTorch's EmbeddingBag has them ([rows]), or with the end behind them ([rows+1]); and
// if there are, NAME.weights, a float an index. They become
//   NAME          [rows, pad_to] of the indices' type; pad_value after a row's last
//   NAME.mask     [rows, pad_to] f32: 1 where there is an index, 0 where there is padding
//   NAME.weights  [rows, pad_to] of the weights' type; 0 after a row's last
// and all other fields stay. Of several rules the first that matches a name counts.
// InvalidArgument: a feature without a rule, a rule without a feature, offsets that are none, a row
// that is longer than pad_to unless the rule cuts. ResourceExhausted: they pad to more than
// `limit`.
absl::StatusOr<std::map<std::string, graph::HostTensor>> PadSparse(
    std::map<std::string, graph::HostTensor> fields, absl::Span<const SparseRule> rules,
    Bytes limit, const Reserve& reserve = {});

}  // namespace ebb::data
