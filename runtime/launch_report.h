// A launch of a sub-model that is complete, as measurements see it. Plain data.
#pragma once

#include "base/ids.h"
#include "base/units.h"

namespace ebb::runtime {

struct LaunchReport {
  JobId job;
  int sub_model = 0;
  bool last = false;  // of its step
  Micros start, end;  // on the device's clock
  Bytes extent;       // of its step's stack while it executed
  Bytes held_after;   // of that stack from then until the step's next launch executes
  Bytes region;       // of its job's state and staging in the pool
};

}  // namespace ebb::runtime
