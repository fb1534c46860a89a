// PyTorch's execution traces: the ops of a rank with their operands, and what its collectives move.
// They have no times: Kineto's trace of the same step has. Free functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::perfmodel {

// A record_param_comms node.
struct RecordedCollective {
  std::string name;        // "all_to_allv", "allreduce", ...; "wait": for the one of `sequence`
  int64_t sequence = -1;   // of its group
  std::string group;       // its name; "" where the trace has only an address
  int64_t address = 0;     // of the group, where it has no name
  int64_t group_size = 0;  // 0: not recorded
  std::string dtype;
  int64_t in_elements = 0, out_elements = 0;
  int64_t element_bytes = 0;
  std::vector<int64_t> in_split = {}, out_split = {};  // elements, of all_to_allv
};

struct ExecutionNode {
  int64_t id = 0;
  int64_t parent = 0;
  std::string name;
  int64_t thread = 0;
  int64_t record_function = -1;                 // rf_id: Kineto's "Record function id"
  int64_t sequence = -1;                        // that joins forward and backward
  std::vector<std::vector<int64_t>> dims = {};  // of its operands
  std::optional<RecordedCollective> collective = {};
};

struct ExecutionTrace {
  std::string schema;
  std::vector<ExecutionNode> nodes;  // by id
};

// Schemas 1.0.1 (flat fields) and 1.0.2 to 1.1.1 (inputs, outputs and attrs as objects).
// InvalidArgument with the node's number or the byte: no such trace, or damaged.
absl::StatusOr<ExecutionTrace> ReadExecutionTrace(absl::string_view text);

}  // namespace ebb::perfmodel
