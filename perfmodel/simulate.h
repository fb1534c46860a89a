// The step that rank programs make: when each task runs, how long the ranks wait for each other,
// and where the step's time goes. Event-driven and pure: no clock, no randomness; the order of the
// ranks changes nothing but the order of the answer.
//
// A rank has one host thread, which launches its tasks in order and is ahead of them as far as its
// own time allows, and streams, each of which runs its tasks in order. A collective begins when the
// last of its ranks has reached it, takes the longest that one of them says, and ends on all at
// once; meanwhile the other streams go on, with collectives of their own too.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/interference.h"
#include "perfmodel/rank_program.h"

namespace ebb::perfmodel {

struct SimulateOptions {
  Interference interference;
  // A factor for each rank on all its own work and its host's; collectives' transfers keep their
  // time. Empty: 1.
  std::vector<double> straggler = {};
};

// Microseconds from the begin of the step.
struct TaskTimes {
  double launched = 0;  // the host has put it on its stream
  double start = 0;     // its kernel starts; of a collective, the rank has come
  double end = 0;
  double wait = 0;  // of a collective: from `start` until its last rank has come
};

// Where a rank's time goes. Each instant of the step counts once, for the first of these that is
// true of the rank; so the parts sum to the step.
struct Breakdown {
  double compute = 0;                // a compute task runs
  double copy = 0;                   // a copy runs
  double exposed_communication = 0;  // a collective runs on all its ranks
  double waiting = 0;  // for other ranks: in a collective (a pipeline's bubble too), or at the end
  double host = 0;     // the device is idle until the host launches more

  double sum() const { return compute + copy + exposed_communication + waiting + host; }
};

struct RankStep {
  std::vector<TaskTimes> tasks;  // as in its program
  double host_end = 0;  // the host has launched everything and waited for what it waits for
  double end = 0;       // of its host and its tasks
  Breakdown parts;
};

struct Step {
  double micros = 0;  // the last rank's end
  std::vector<RankStep> ranks;
  Breakdown parts;  // mean over the ranks
};

// InvalidArgument names rank and task where a program is not one (an `after` that is no earlier
// task, a time that is none, a collective twice on one rank), and where ranks wait for each other
// for ever, as with collectives in different orders.
absl::StatusOr<Step> Simulate(absl::Span<const RankProgram> ranks,
                              const SimulateOptions& options = {});

}  // namespace ebb::perfmodel
