// One random mix of jobs on the real scheduler, with a virtual clock instead of a device: streams
// are in order, launches take random times and honour the waits they were told, and what really
// overlapped in time and address is looked at afterwards.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/rules.h"

namespace ebb::scheduler {

struct MixResult {
  std::string failure;  // empty: every check held
  int64_t launches = 0;
  int64_t waits = 0;
  int64_t dropped = 0;  // steps cut short
  int64_t most_overtaken = 0;
  int64_t together = 0;  // launches that started while the other end of their lane was busy
  int64_t turns = 0;     // steps of jobs that took turns with others
};

// Everything about the mix follows from the seed.
MixResult RunMix(uint64_t seed, const SchedulerRules& rules);

}  // namespace ebb::scheduler
