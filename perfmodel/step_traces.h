// A simulated step as others read it: a timeline for Perfetto, a graph for simulators of networks.
// Free functions.
#pragma once

#include <optional>
#include <string>

#include "absl/types/span.h"
#include "perfmodel/collective.h"
#include "perfmodel/formats/chakra.h"
#include "perfmodel/formats/kineto.h"
#include "perfmodel/rank_program.h"
#include "perfmodel/simulate.h"

namespace ebb::perfmodel {

// What a collective of the programs is, by Task::collective.
struct NamedCollective {
  Collective what;
  std::string group = "0";                // its communicator
  int64_t source = -1, destination = -1;  // of a send and receive: ranks
};

// The rank's launches, kernels and copies; a collective as NCCL's kernels show it, from the rank's
// coming to the end, with its waiting as a range of its own on the stream.
KinetoTrace KinetoOf(const RankProgram& program, const RankStep& step, int rank, int ranks);

// A node a task, after what it comes after and after the one before on its stream. `collectives`
// (may be empty) says what they move; one of kSendRecv is a send on its source, a receive on its
// destination. `step` (may be null) adds when tasks started.
ChakraTrace ChakraOf(const RankProgram& program, absl::Span<const NamedCollective> collectives,
                     int rank, const RankStep* step);

}  // namespace ebb::perfmodel
