// PARAM's traces of communication ("basic" format): the collectives of a rank in order, with what
// they move. Free functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/collective.h"

namespace ebb::perfmodel {

struct CommsTraceEntry {
  std::string comms;       // "all_to_allv", "wait", "init", ...; "" of compute
  std::string compute;     // "gemm", "emb_lookup"; "" of communication
  int64_t count = 1;       // of compute: how often
  int64_t request = -1;    // that joins a collective and its wait
  int64_t start_ns = -1;   // -1: not recorded
  int64_t world_size = 0;  // of its group; 0: not recorded
  int64_t group = -1;
  std::vector<int64_t> global_ranks = {};  // of "init": the group's
  int64_t root = -1, source = -1, destination = -1;
  bool batched = false;  // of send and recv
  std::string dtype = {};
  int64_t in_elements = 0, out_elements = 0;
  std::vector<int64_t> in_split = {}, out_split = {};  // elements, of all_to_allv
  std::vector<std::string> markers = {};
};

// InvalidArgument with the entry's number or the byte: no list of such entries, or damaged.
absl::StatusOr<std::vector<CommsTraceEntry>> ReadCommsTrace(absl::string_view text);
std::string WriteCommsTrace(absl::Span<const CommsTraceEntry> entries);

// What a predictor is asked for an entry of communication. Unimplemented: a wait, a barrier, ...;
// InvalidArgument: its type of elements is unknown.
absl::StatusOr<Collective> CollectiveOf(const CommsTraceEntry& entry);

}  // namespace ebb::perfmodel
