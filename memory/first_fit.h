// First-fit for live ranges: each gets the lowest address that those placed before it, and alive at
// the same time, leave free. Finds them by time, so that a step of many short parts is planned in
// about linear time. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "memory/stack_plan.h"

namespace ebb::memory {

class FirstFit {
 public:
  // Steps in which ranges that live together are sought: the number of them for which placing all
  // of `ranges`, in whatever order, is expected to take the fewest comparisons.
  static int WindowFor(absl::Span<const LiveRange> ranges, int num_steps);

  // `window` changes the time that Place() takes and nothing else. At least 1.
  FirstFit(int num_steps, int window);

  // `bytes`: what the range takes, more than 0. Places it, and returns where.
  Bytes Place(const LiveRange& range, Bytes bytes);
  int64_t looked_at() const { return looked_at_; }  // placed ranges, by all calls of Place()

 private:
  struct Placed {
    Bytes offset, end;
    int first, last;
    bool operator<(const Placed& other) const { return offset < other.offset; }
  };
  using Shelf = std::vector<Placed>;  // by offset

  Bytes LowestAmong(absl::Span<const Shelf* const> shelves, const LiveRange& range, Bytes bytes);
  const Shelf& All();

  const int window_;
  std::vector<Shelf> short_;  // ranges no longer than a window, in every window that they touch
  Shelf long_;                // the others
  Shelf all_;                 // the ranges of both, but for `pending_`
  Shelf pending_;             // unsorted
  int64_t looked_at_ = 0;
};

}  // namespace ebb::memory
