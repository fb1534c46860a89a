#include "scheduler/profile.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::scheduler {

Bytes StepProfile::Peak() const {
  Bytes peak;
  for (Bytes bytes : extent) peak = std::max(peak, bytes);
  return peak;
}

StepProfile ProfileOf(const memory::StackPlan& plan, absl::Span<const memory::LiveRange> ranges,
                      Bytes alignment, absl::Span<const int> last) {
  EBB_CHECK(!last.empty() && static_cast<size_t>(last.back()) + 1 == plan.extent.size());
  StepProfile profile;
  int index = 0;
  for (int end : last) {
    EBB_CHECK(index <= end);
    Bytes extent;
    for (; index <= end; ++index) {
      extent = std::max(extent, plan.extent[static_cast<size_t>(index)]);
    }
    Bytes held;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].first <= end && ranges[i].last > end) {
        held = std::max(held, plan.offset[i] + AlignUp(ranges[i].bytes, alignment));
      }
    }
    profile.extent.push_back(extent);
    profile.held_after.push_back(held);
  }
  return profile;
}

}  // namespace ebb::scheduler
