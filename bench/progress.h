// How far jobs came and which bytes they held within a window of the device's time, from the
// launches that were reported. Pure functions.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "runtime/launch_report.h"

namespace ebb::bench {

struct Window {
  Micros begin, end;
  Micros length() const { return end - begin; }
};

// Steps done by the job whose launches these are, in order, with parts of steps: a launch that is
// half within counts half, and for the part of its step's execution time that it takes. A last step
// without end is measured by the one before it.
double StepsWithin(absl::Span<const runtime::LaunchReport> launches, Window window);

// End of each step, in order.
std::vector<Micros> StepEnds(absl::Span<const runtime::LaunchReport> launches);

// Bytes held by all jobs, mean over the window: a job's region all of the time, a launch's extent
// while it executed, and what its stack held from then to the step's next launch.
double MeanBytesHeld(const std::vector<std::vector<runtime::LaunchReport>>& jobs, Window window);

}  // namespace ebb::bench
