// What is said about co-running: how it is decided, and what is known of a pair of jobs.
#pragma once

#include <cstdint>

#include "base/ids.h"

namespace ebb::runtime {

enum class CoRunMode {
  kAuto,    // pairs that lose take turns
  kAlways,  // never in turns, whatever it costs
  kNever,   // one step in flight on the whole device
};

const char* Name(CoRunMode mode);

// What is known of a pair, seen from one of the two.
struct CoRunPair {
  enum class State { kMeasuringAlone, kMeasuringTogether, kTogether, kTurns };
  JobId other;
  State state = State::kMeasuringTogether;
  bool measured = false;  // the following are known
  double own = 0;         // progress a second of device time, by the newest verdict
  double others = 0;
  // kTurns: steps of both until they are tried together again; 0: on a change.
  int64_t retry_in = 0;
  int tries = 0;  // that were lost since something changed
  // Pairs of sub-models, one of either job, that have been measured, and that wait for each other.
  int known = 0, apart = 0;
};

const char* Name(CoRunPair::State state);

}  // namespace ebb::runtime
