#include "runtime/overlap.h"

#include <algorithm>

namespace ebb::runtime {

void OverlapTracker::Completed(int stream, Micros start, Micros end) {
  --outstanding_[stream];
  last_end_[stream] = end;
  if (!begun_) {
    begun_ = true;
    first_ = settled_until_ = start;
  }
  newest_ = std::max(newest_, end);
  // Time before settled_until_ has been counted; what is left of the interval still counts.
  start = std::max(start, settled_until_);
  if (end > start) {
    ++edges_[start];
    --edges_[end];
  }
  Settle();
}

// Counts everything that no launch still to be reported can reach: a stream with launches
// outstanding reports nothing earlier than the end of its last one.
void OverlapTracker::Settle() {
  Micros horizon = newest_;
  for (size_t s = 0; s < outstanding_.size(); ++s) {
    if (outstanding_[s] > 0) horizon = std::min(horizon, std::max(last_end_[s], settled_until_));
  }
  while (!edges_.empty() && edges_.begin()->first <= horizon) {
    const auto [time, change] = *edges_.begin();
    edges_.erase(edges_.begin());
    const Micros span = time - settled_until_;
    if (depth_ >= 1) busy_ += span;
    if (depth_ >= 2) concurrent_ += span;
    settled_until_ = time;
    depth_ += change;
  }
  if (horizon > settled_until_) {
    const Micros span = horizon - settled_until_;
    if (depth_ >= 1) busy_ += span;
    if (depth_ >= 2) concurrent_ += span;
    settled_until_ = horizon;
  }
}

}  // namespace ebb::runtime
