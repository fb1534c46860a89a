// How much tasks that run at once on one rank slow each other down. Plain data.
#pragma once

#include <array>

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

}  // namespace ebb::perfmodel
