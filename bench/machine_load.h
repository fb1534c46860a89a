// How busy the machine is with what is not ours, so that disturbed runs can be told.
#pragma once

namespace ebb::bench {

// Processor time of the whole machine and of this process; differences count.
struct MachineTimes {
  double busy = 0, total = 0, own = 0;  // seconds over all processors
};
// Zeros where the machine does not say.
MachineTimes ReadMachineTimes();

// Part of the processors' time between two readings that others took, within [0, 1].
double TakenByOthers(const MachineTimes& before, const MachineTimes& after);

}  // namespace ebb::bench
