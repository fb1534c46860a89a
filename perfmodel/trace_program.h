// Programs of ranks from their traces of one step: to replay it, or to predict it with other times.
// Free functions and plain data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/host_timeline.h"
#include "perfmodel/host_times.h"
#include "perfmodel/rank_program.h"

namespace ebb::perfmodel {

struct RankTrace {
  const KinetoTrace* trace = nullptr;
  const HostTimeline* timeline = nullptr;  // of `trace`
};

// A collective of the programs, with what is known of it.
struct TracedCollective {
  std::string name;  // "all_to_allv", "allreduce"; the kernel's where nothing says it
  double bytes = 0;  // that a rank gives, on the average; 0: unknown
  int64_t ranks = 0;
  double shortest =
      0;  // of its kernels, over the ranks: its transfer, as who comes last waits for none
};

struct TracedPrograms {
  std::vector<RankProgram> ranks;
  std::vector<double> begins;  // us of each rank's step from the first one's; in its first host_us
  std::vector<TracedCollective> collectives;  // by Task::collective; their tasks take `shortest`
};

// The launches come when they came: the host never waits for the device, whose tasks take as long
// as they did. InvalidArgument: ranks with different collectives.
absl::StatusOr<TracedPrograms> ReplayOf(absl::Span<const RankTrace> ranks);

// The host takes the times of `host` for the ops of the traces and waits where they waited.
absl::StatusOr<TracedPrograms> ProgramsOf(absl::Span<const RankTrace> ranks, const HostTimes& host);

// When the last device task of a rank ends in a simulation, from the rank's own begin: `ends` of
// its tasks as perfmodel/simulate.h has them.
double DeviceEnd(const RankProgram& program, absl::Span<const double> ends, double begin);

}  // namespace ebb::perfmodel
