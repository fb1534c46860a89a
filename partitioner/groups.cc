#include "partitioner/groups.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace ebb::partitioner {
namespace {

int GreedyGroups(absl::Span<const Bytes> weights, Bytes maximum) {
  int groups = 1;
  Bytes filled;
  for (Bytes weight : weights) {
    if (filled + weight > maximum) {
      ++groups;
      filled = Bytes(0);
    }
    filled += weight;
  }
  return groups;
}

}  // namespace

Bytes LeastMaximum(absl::Span<const Bytes> weights, int groups) {
  Bytes low, high;  // the answer is in [low, high]
  for (Bytes weight : weights) {
    low = std::max(low, weight);
    high += weight;
  }
  while (low < high) {
    const Bytes middle = low + (high - low) / 2;
    if (GreedyGroups(weights, middle) <= groups) {
      high = middle;
    } else {
      low = middle + Bytes(1);
    }
  }
  return low;
}

std::vector<int> BestCuts(absl::Span<const Bytes> weights, absl::Span<const Bytes> crossing,
                          int groups, Bytes maximum) {
  const int count = static_cast<int>(weights.size());
  EBB_CHECK(groups >= 1 && groups <= count);
  // With the number of groups fixed the deviations differ from the squares by a constant.
  using Cost = std::pair<double, double>;  // sum of squares, crossing bytes
  const Cost never(std::numeric_limits<double>::infinity(), 0);
  // best[i]: the first i weights in g groups; from[g][i]: where the last of them begins.
  std::vector<Cost> best(static_cast<size_t>(count) + 1, never);
  best[0] = {0, 0};
  std::vector<std::vector<int>> from;
  for (int g = 1; g <= groups; ++g) {
    std::vector<Cost> next(best.size(), never);
    from.emplace_back(best.size(), -1);
    for (int end = g; end <= count - (groups - g); ++end) {
      Bytes sum;
      for (int begin = end - 1; begin >= g - 1; --begin) {
        sum += weights[static_cast<size_t>(begin)];
        if (sum > maximum) break;
        Cost cost = best[static_cast<size_t>(begin)];
        const auto square = static_cast<double>(sum.count());
        cost.first += square * square;
        if (begin > 0) {
          cost.second += static_cast<double>(crossing[static_cast<size_t>(begin)].count());
        }
        if (cost < next[static_cast<size_t>(end)]) {
          next[static_cast<size_t>(end)] = cost;
          from.back()[static_cast<size_t>(end)] = begin;
        }
      }
    }
    best = std::move(next);
  }
  std::vector<int> firsts(static_cast<size_t>(groups));
  int end = count;
  for (int g = groups; g >= 1; --g) {
    end = from[static_cast<size_t>(g) - 1][static_cast<size_t>(end)];
    EBB_CHECK(end >= 0);  // `maximum` was too small
    firsts[static_cast<size_t>(g) - 1] = end;
  }
  return firsts;
}

}  // namespace ebb::partitioner
