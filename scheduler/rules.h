// The rules of the scheduler as data, so that tests can break one at a time and show that the
// property test notices. Production code uses the defaults; nothing else is safe.
#pragma once

namespace ebb::scheduler {

struct SchedulerRules {
  // What a follower's sub-model s must leave to the leader.
  enum class Test {
    kExtent,     // U_F(s) + N_L <= A
    kHeldAfter,  // H_F(s) + N_L <= A: forgets what the sub-model needs while it runs
    kNone,
  };
  // Which launches get to wait for the other end.
  enum class Waits {
    kBothEnds,
    kTopEndOnly,
    kStepsInFlight,  // ignores launches of steps that have departed
    kNextLaunch,     // names a launch that is still to come instead
  };
  enum class Turns { kKept, kIgnored };
  Test test = Test::kExtent;
  Waits waits = Waits::kBothEnds;
  Turns turns = Turns::kKept;

  bool Sound() const {
    return test == Test::kExtent && waits == Waits::kBothEnds && turns == Turns::kKept;
  }
};

}  // namespace ebb::scheduler
