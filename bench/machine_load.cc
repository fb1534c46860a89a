#include "bench/machine_load.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <string>

namespace ebb::bench {

MachineTimes ReadMachineTimes() {
  MachineTimes times;
  std::ifstream file("/proc/stat");
  std::string word;
  file >> word;  // "cpu": the sum over all
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  // user nice system idle iowait irq softirq steal; what follows is counted in these.
  for (int i = 0; i < 8; ++i) {
    double value = 0;
    if (!(file >> value)) return {};
    times.total += value / ticks;
    if (i != 3 && i != 4) times.busy += value / ticks;
  }
  timespec own;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &own);
  times.own = static_cast<double>(own.tv_sec) + static_cast<double>(own.tv_nsec) / 1e9;
  return times;
}

double TakenByOthers(const MachineTimes& before, const MachineTimes& after) {
  const double total = after.total - before.total;
  if (total <= 0) return 0;
  const double others = (after.busy - before.busy) - (after.own - before.own);
  return std::clamp(others / total, 0.0, 1.0);
}

}  // namespace ebb::bench
