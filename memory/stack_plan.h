// The offline plan of one step's memory: an offset for every buffer, so that low addresses die last
// and the stack's height (extent) follows the live bytes. Knows live ranges, not tensors.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/units.h"

namespace ebb::memory {

struct LiveRange {
  Bytes bytes;
  int first = 0;  // step indices, inclusive
  int last = 0;
};

struct StackPlan {
  std::vector<Bytes> offset;  // per range
  std::vector<Bytes> extent;  // per index: the highest end of a range live at it
  Bytes peak;                 // max of extent
  std::string strategy;       // which member of the portfolio won
};

// The largest sum of live bytes, sizes rounded up to `alignment`: no plan's peak is lower.
Bytes LivePeak(absl::Span<const LiveRange> ranges, Bytes alignment);

// Portfolio of first-fit in order of birth, latest-death-first, longest-lived first and greedy by
// size, each improved by placing what makes the peak earlier and what leaves holes under it later;
// the one with the least peak / live peak + 0.3 x mean extent / mean live bytes. `num_steps`
// indices; sizes are rounded up to `alignment`. Deterministic: equal input gives an equal plan.
// About linear where most ranges live for a small part of the step, O(n^2) in the worst case.
// `only`: a member of the portfolio to which the search is confined, such as the winner of a plan
// that this one is a variant of; empty: all of them.
StackPlan PlanStack(absl::Span<const LiveRange> ranges, int num_steps, Bytes alignment,
                    absl::string_view only = "");

// No two ranges that live at the same time share an address; extents and peak are what they claim.
absl::Status Verify(const StackPlan& plan, absl::Span<const LiveRange> ranges, Bytes alignment);

}  // namespace ebb::memory
