// From a stack plan and the cuts of a partition to what the scheduler needs to know. Pure.
#pragma once

#include "absl/types/span.h"
#include "memory/stack_plan.h"
#include "scheduler/scheduler.h"

namespace ebb::scheduler {

// `last[s]` is the last index (inclusive) of sub-model s: increasing, the last one ends the plan.
// Extents are the highest over a sub-model's indices; held is the highest end of what lives across
// its last.
StepProfile ProfileOf(const memory::StackPlan& plan, absl::Span<const memory::LiveRange> ranges,
                      Bytes alignment, absl::Span<const int> last);

}  // namespace ebb::scheduler
