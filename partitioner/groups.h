// Cutting a row of weights into contiguous groups. Internal to the partitioner; knows no graph.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "base/units.h"

namespace ebb::partitioner {

// The least maximum with which greedy filling needs at most `groups` groups.
Bytes LeastMaximum(absl::Span<const Bytes> weights, int groups);

// Exactly `groups` (<= the number of weights) non-empty groups, none above `maximum`, with the
// least sum of squared deviations from the mean; ties to fewer `crossing` bytes, where crossing[i]
// is what a cut before weight i moves. Returns the first index of every group.
std::vector<int> BestCuts(absl::Span<const Bytes> weights, absl::Span<const Bytes> crossing,
                          int groups, Bytes maximum);

}  // namespace ebb::partitioner
