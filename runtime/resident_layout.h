// Where resident values lie in a job's image: one layout for all levels of the memory ladder.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/units.h"

namespace ebb::runtime {

struct ResidentLayout {
  absl::flat_hash_map<std::string, Bytes> shared;  // by name: parameters, slots, buffers, scalars
  // Constants and metrics belong to one program.
  std::array<absl::flat_hash_map<std::string, Bytes>, 2> own;
  std::array<Bytes, 2> metrics_begin;  // metric k of a program lies at begin + offset k
  std::array<std::vector<Bytes>, 2> metric_offsets;
  std::array<Bytes, 2> metrics_bytes;
  Bytes state_end;  // [0, state_end): what a snapshot holds (parameters, slots, buffers)
  Bytes bytes;      // all of it
  std::map<std::string, Bytes> classes;  // "parameters", "optimizer state", ... for reports

  // The parts of the state, in order; they cover [0, state_end).
  enum class Kind { kParam, kSlot, kBuffer };
  struct StateValue {
    std::string name;
    Kind kind = Kind::kParam;
    Bytes begin, bytes;
  };
  std::vector<StateValue> state;
};

}  // namespace ebb::runtime
