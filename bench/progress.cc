#include "bench/progress.h"

#include <algorithm>

namespace ebb::bench {
namespace {

using runtime::LaunchReport;

double Within(Micros begin, Micros end, Window window) {
  return static_cast<double>(
      std::max(Micros(0), std::min(end, window.end) - std::max(begin, window.begin)).count());
}

}  // namespace

double StepsWithin(absl::Span<const LaunchReport> launches, Window window) {
  double steps = 0, step_micros = 0;
  for (size_t first = 0; first < launches.size();) {
    size_t end = first;
    double micros = 0, within = 0;
    bool whole = false;
    for (; end < launches.size() && !whole; ++end) {
      const LaunchReport& launch = launches[end];
      micros += static_cast<double>((launch.end - launch.start).count());
      within += Within(launch.start, launch.end, window);
      whole = launch.last;
    }
    if (whole) step_micros = micros;
    if (step_micros > 0) steps += std::min(1.0, within / step_micros);
    first = end;
  }
  return steps;
}

std::vector<Micros> StepEnds(absl::Span<const LaunchReport> launches) {
  std::vector<Micros> ends;
  for (const LaunchReport& launch : launches) {
    if (launch.last) ends.push_back(launch.end);
  }
  return ends;
}

double MeanBytesHeld(const std::vector<std::vector<LaunchReport>>& jobs, Window window) {
  double sum = 0;
  for (const std::vector<LaunchReport>& launches : jobs) {
    for (size_t l = 0; l < launches.size(); ++l) {
      const LaunchReport& launch = launches[l];
      const Micros until = l + 1 < launches.size() ? launches[l + 1].start : window.end;
      const Micros since = l == 0 ? window.begin : launch.start;
      sum += Within(launch.start, launch.end, window) * static_cast<double>(launch.extent.count());
      sum += Within(launch.end, until, window) * static_cast<double>(launch.held_after.count());
      sum += Within(since, until, window) * static_cast<double>(launch.region.count());
    }
  }
  return sum / static_cast<double>(window.length().count());
}

}  // namespace ebb::bench
