// How much tasks that run at once on one rank slow each other down. Plain data and a free function.
#pragma once

#include <array>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/rank_program.h"

namespace ebb::perfmodel {

// A task of resource a runs at 1 / (1 + sum over the rank's other running tasks of
// (slowdown[a][theirs] - 1)) of its speed: 1 means no effect, and 2 between two tasks of one
// resource means that they share it fairly, however many there are. A collective runs as slowly as
// on its slowest rank; while it waits for ranks it slows nothing.
struct Interference {
  std::array<std::array<double, 3>, 3> slowdown = {{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};

  double of(Resource slowed, Resource by) const {
    return slowdown[static_cast<size_t>(slowed)][static_cast<size_t>(by)];
  }
};

// What a task took alone and beside one other.
struct CoRun {
  Resource slowed = Resource::kCompute;
  Resource by = Resource::kCompute;  // the other
  double alone_us = 0;
  double beside_us = 0;
  double overlap = 1;  // share of `beside_us` during which the other ran
};

inline constexpr double kMostSlowdown = 1000;

// The median of what the runs of each pair say, between 1 and kMostSlowdown; 1 for a pair without
// runs. InvalidArgument: a time that is not above 0, a share that is not above 0 and at most 1.
absl::StatusOr<Interference> FitInterference(absl::Span<const CoRun> runs);

}  // namespace ebb::perfmodel
