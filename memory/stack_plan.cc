#include "memory/stack_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ebb::memory {
namespace {

// Weight of the mean extent against the peak: memory that is given up early lets another job rise.
constexpr double kMeanWeight = 0.3;

bool LiveTogether(const LiveRange& a, const LiveRange& b) {
  return a.first <= b.last && b.first <= a.last;
}

std::vector<Bytes> Extents(absl::Span<const LiveRange> ranges, absl::Span<const Bytes> offset,
                           int num_steps, Bytes alignment) {
  std::vector<Bytes> extent(static_cast<size_t>(num_steps));
  for (size_t i = 0; i < ranges.size(); ++i) {
    const Bytes end = offset[i] + AlignUp(ranges[i].bytes, alignment);
    for (int t = ranges[i].first; t <= ranges[i].last; ++t) {
      extent[static_cast<size_t>(t)] = std::max(extent[static_cast<size_t>(t)], end);
    }
  }
  return extent;
}

// Every range at the lowest gap that the ones before it in `order` leave.
StackPlan FirstFit(absl::Span<const LiveRange> ranges, const std::vector<int>& order, int num_steps,
                   Bytes alignment) {
  struct Placed {
    Bytes offset, end;
    int range;
  };
  StackPlan plan;
  plan.offset.resize(ranges.size());
  std::vector<Placed> placed;  // by offset
  placed.reserve(ranges.size());
  for (int index : order) {
    const LiveRange& range = ranges[static_cast<size_t>(index)];
    const Bytes bytes = AlignUp(range.bytes, alignment);
    if (bytes == Bytes(0)) continue;
    Bytes at;
    for (const Placed& other : placed) {
      if (other.end <= at || !LiveTogether(range, ranges[static_cast<size_t>(other.range)])) {
        continue;
      }
      if (at + bytes <= other.offset) break;
      at = other.end;
    }
    plan.offset[static_cast<size_t>(index)] = at;
    const auto where =
        std::upper_bound(placed.begin(), placed.end(), at,
                         [](Bytes offset, const Placed& other) { return offset < other.offset; });
    placed.insert(where, {at, at + bytes, index});
  }
  plan.extent = Extents(ranges, plan.offset, num_steps, alignment);
  for (Bytes extent : plan.extent) plan.peak = std::max(plan.peak, extent);
  return plan;
}

double Cost(const StackPlan& plan) {
  if (plan.extent.empty()) return 0;
  double sum = 0;
  for (Bytes extent : plan.extent) sum += static_cast<double>(extent.count());
  return static_cast<double>(plan.peak.count()) +
         kMeanWeight * sum / static_cast<double>(plan.extent.size());
}

// The highest range stands on holes that an earlier one left: it is placed before all others, and
// again for the one that is highest then. Stops when there is nothing to gain.
void PromoteHighest(absl::Span<const LiveRange> ranges, std::vector<int> order, Bytes floor,
                    Bytes alignment, StackPlan* best) {
  constexpr int kRounds = 24;
  const int num_steps = static_cast<int>(best->extent.size());
  StackPlan plan = *best;
  for (int round = 0; round < kRounds && best->peak > floor; ++round) {
    const auto highest = std::find_if(order.begin(), order.end(), [&](int index) {
      const auto i = static_cast<size_t>(index);
      return plan.offset[i] + AlignUp(ranges[i].bytes, alignment) == plan.peak;
    });
    std::rotate(order.begin(), highest, highest + 1);
    plan = FirstFit(ranges, order, num_steps, alignment);
    plan.strategy = best->strategy;
    if (Cost(plan) < Cost(*best)) *best = plan;
  }
}

// Orders compare these tuples; the index comes last, so that every order is total.
using Key = std::tuple<int64_t, int64_t, int64_t>;
struct Strategy {
  const char* name;
  Key (*key)(const LiveRange& range);
};

constexpr Strategy kPortfolio[] = {
    {"birth", [](const LiveRange& r) { return Key(r.first, -int64_t{r.last}, -r.bytes.count()); }},
    {"latest death",
     [](const LiveRange& r) { return Key(-int64_t{r.last}, r.first, -r.bytes.count()); }},
    {"latest death, large first",
     [](const LiveRange& r) { return Key(-int64_t{r.last}, -r.bytes.count(), r.first); }},
    {"longest life",
     [](const LiveRange& r) { return Key(r.first - r.last, -r.bytes.count(), r.first); }},
    {"size", [](const LiveRange& r) { return Key(-r.bytes.count(), r.first - r.last, r.first); }},
};

absl::Status Wrong(absl::string_view what) {
  return absl::InternalError(absl::StrCat("stack plan: ", what));
}

}  // namespace

Bytes LivePeak(absl::Span<const LiveRange> ranges, Bytes alignment) {
  std::vector<std::pair<int, Bytes>> changes;
  for (const LiveRange& range : ranges) {
    const Bytes bytes = AlignUp(range.bytes, alignment);
    changes.emplace_back(range.first, bytes);
    changes.emplace_back(range.last + 1, -bytes);
  }
  std::sort(changes.begin(), changes.end());  // deaths before births at the same index
  Bytes live, peak;
  for (const auto& [index, bytes] : changes) {
    live += bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

StackPlan PlanStack(absl::Span<const LiveRange> ranges, int num_steps, Bytes alignment) {
  EBB_CHECK(alignment > Bytes(0) && num_steps >= 0);
  for (const LiveRange& range : ranges) {
    EBB_CHECK(range.bytes >= Bytes(0));
    EBB_CHECK(0 <= range.first && range.first <= range.last && range.last < num_steps);
  }
  const Bytes floor = LivePeak(ranges, alignment);
  StackPlan best;
  std::vector<int> order(ranges.size());
  for (const Strategy& strategy : kPortfolio) {
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::pair(strategy.key(ranges[static_cast<size_t>(a)]), a) <
             std::pair(strategy.key(ranges[static_cast<size_t>(b)]), b);
    });
    StackPlan plan = FirstFit(ranges, order, num_steps, alignment);
    plan.strategy = strategy.name;
    PromoteHighest(ranges, order, floor, alignment, &plan);
    if (best.strategy.empty() || Cost(plan) < Cost(best)) best = std::move(plan);
  }
  return best;
}

absl::Status Verify(const StackPlan& plan, absl::Span<const LiveRange> ranges, Bytes alignment) {
  if (plan.offset.size() != ranges.size()) return Wrong("not one offset for every range");
  std::vector<int> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) {
    return plan.offset[static_cast<size_t>(a)] < plan.offset[static_cast<size_t>(b)];
  });
  for (size_t i = 0; i < order.size(); ++i) {
    const auto a = static_cast<size_t>(order[i]);
    if (plan.offset[a] < Bytes(0) || plan.offset[a].count() % alignment.count() != 0) {
      return Wrong(absl::StrCat("range ", a, " is not aligned"));
    }
    if (ranges[a].first < 0 || ranges[a].first > ranges[a].last ||
        static_cast<size_t>(ranges[a].last) >= plan.extent.size()) {
      return Wrong(absl::StrCat("range ", a, " lives outside the plan"));
    }
    const Bytes end = plan.offset[a] + AlignUp(ranges[a].bytes, alignment);
    for (size_t j = i + 1; j < order.size(); ++j) {
      const auto b = static_cast<size_t>(order[j]);
      if (plan.offset[b] >= end) break;
      if (ranges[b].bytes > Bytes(0) && LiveTogether(ranges[a], ranges[b])) {
        return Wrong(absl::StrCat("ranges ", a, " and ", b, " share addresses while both live"));
      }
    }
  }
  if (plan.extent !=
      Extents(ranges, plan.offset, static_cast<int>(plan.extent.size()), alignment)) {
    return Wrong("an extent is not the highest end of the live ranges");
  }
  Bytes peak;
  for (Bytes extent : plan.extent) peak = std::max(peak, extent);
  if (plan.peak != peak) return Wrong("the peak is not the largest extent");
  return absl::OkStatus();
}

}  // namespace ebb::memory
