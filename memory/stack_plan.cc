#include "memory/stack_plan.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "memory/first_fit.h"

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

double SumOf(absl::Span<const Bytes> values) {
  double sum = 0;
  for (Bytes value : values) sum += static_cast<double>(value.count());
  return sum;
}

// What is planned, and what no plan can undercut.
struct Problem {
  absl::Span<const LiveRange> ranges;
  int num_steps;
  Bytes alignment;
  Bytes floor;  // the live peak
  double live;  // sum over the indices of the live bytes
  int window;   // of FirstFit

  Bytes Size(int range) const {
    return AlignUp(ranges[static_cast<size_t>(range)].bytes, alignment);
  }
  bool Lives(int range, int index) const {
    const LiveRange& r = ranges[static_cast<size_t>(range)];
    return r.first <= index && index <= r.last;
  }
};

// Peak and mean extent, each over its lower bound.
double Cost(const Problem& problem, const StackPlan& plan) {
  if (problem.floor == Bytes(0)) return 0;
  return plan.peak / problem.floor + kMeanWeight * SumOf(plan.extent) / problem.live;
}

// A plan and the order that first-fit made it from.
struct Candidate {
  std::vector<int> order;
  StackPlan plan;
  double cost = 0;
};

// Every range at the lowest gap that the ones before it in `order` leave.
Candidate Make(const Problem& problem, std::vector<int> order) {
  Candidate made{std::move(order), {}, 0};
  StackPlan& plan = made.plan;
  plan.offset.resize(problem.ranges.size());
  FirstFit placed(problem.num_steps, problem.window);
  for (int range : made.order) {
    const Bytes bytes = problem.Size(range);
    if (bytes == Bytes(0)) continue;
    const auto index = static_cast<size_t>(range);
    plan.offset[index] = placed.Place(problem.ranges[index], bytes);
  }
  plan.extent = Extents(problem.ranges, plan.offset, problem.num_steps, problem.alignment);
  for (Bytes extent : plan.extent) plan.peak = std::max(plan.peak, extent);
  made.cost = Cost(problem, plan);
  return made;
}

// The highest range stands on holes that an earlier one left: it is placed before all others, and
// again for the one that is highest then. Stops when there is nothing to gain.
void PromoteHighest(const Problem& problem, Candidate* best) {
  constexpr int kRounds = 24;
  Candidate now = *best;
  for (int round = 0; round < kRounds && best->plan.peak > problem.floor; ++round) {
    const auto highest = std::find_if(now.order.begin(), now.order.end(), [&](int i) {
      return now.plan.offset[static_cast<size_t>(i)] + problem.Size(i) == now.plan.peak;
    });
    std::rotate(now.order.begin(), highest, highest + 1);
    now = Make(problem, std::move(now.order));
    if (now.cost < best->cost) *best = now;
  }
}

// Holes under the peak: addresses that nothing uses at the index of the peak, largest first.
struct Hole {
  Bytes from, to;
  int above;  // the range that stands on it
};
std::vector<Hole> HolesAt(const Problem& problem, const StackPlan& plan, int index) {
  std::vector<int> live;
  for (size_t i = 0; i < problem.ranges.size(); ++i) {
    const int range = static_cast<int>(i);
    if (problem.Lives(range, index) && problem.Size(range) > Bytes(0)) live.push_back(range);
  }
  const auto offset = [&](int range) { return plan.offset[static_cast<size_t>(range)]; };
  std::sort(live.begin(), live.end(),
            [&](int a, int b) { return std::pair(offset(a), a) < std::pair(offset(b), b); });
  std::vector<Hole> holes;
  Bytes at;
  for (int range : live) {
    if (offset(range) > at) holes.push_back({at, offset(range), range});
    at = offset(range) + problem.Size(range);
  }
  std::stable_sort(holes.begin(), holes.end(),
                   [](const Hole& a, const Hole& b) { return a.to - a.from > b.to - b.from; });
  return holes;
}

// The order with what keeps `hole` open (it lies there at another time, and was placed before the
// range above) moved to the end.
std::vector<int> Demote(const Problem& problem, const Candidate& from, const Hole& hole,
                        int index) {
  std::vector<int> order, demoted;
  bool before = true;
  for (int i : from.order) {
    const Bytes offset = from.plan.offset[static_cast<size_t>(i)];
    before = before && i != hole.above;
    const bool overlaps = offset < hole.to && hole.from < offset + problem.Size(i);
    (before && overlaps && !problem.Lives(i, index) ? demoted : order).push_back(i);
  }
  order.insert(order.end(), demoted.begin(), demoted.end());
  return order;
}

// Closes holes under the peak as long as that pays.
void CloseHoles(const Problem& problem, Candidate* best) {
  constexpr int kRounds = 12;
  constexpr size_t kHoles = 12;
  bool improved = true;
  for (int round = 0; round < kRounds && improved && best->plan.peak > problem.floor; ++round) {
    improved = false;
    const auto& extent = best->plan.extent;
    const auto index =
        static_cast<int>(std::max_element(extent.begin(), extent.end()) - extent.begin());
    const std::vector<Hole> holes = HolesAt(problem, best->plan, index);
    for (size_t h = 0; h < std::min(kHoles, holes.size()) && !improved; ++h) {
      Candidate next = Make(problem, Demote(problem, *best, holes[h], index));
      improved = next.cost < best->cost;
      if (improved) *best = std::move(next);
    }
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

StackPlan PlanStack(absl::Span<const LiveRange> ranges, int num_steps, Bytes alignment,
                    absl::string_view only) {
  EBB_CHECK(alignment > Bytes(0) && num_steps >= 0);
  for (const LiveRange& range : ranges) {
    EBB_CHECK(range.bytes >= Bytes(0));
    EBB_CHECK(0 <= range.first && range.first <= range.last && range.last < num_steps);
  }
  Problem problem{ranges,    num_steps,
                  alignment, LivePeak(ranges, alignment),
                  0,         FirstFit::WindowFor(ranges, num_steps)};
  for (const LiveRange& range : ranges) {
    problem.live += static_cast<double>(AlignUp(range.bytes, alignment).count()) *
                    (range.last - range.first + 1);
  }
  Candidate best;
  EBB_CHECK(only.empty() || std::any_of(std::begin(kPortfolio), std::end(kPortfolio),
                                        [&](const Strategy& s) { return only == s.name; }));
  for (const Strategy& strategy : kPortfolio) {
    if (!only.empty() && only != strategy.name) continue;
    std::vector<int> order(ranges.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::pair(strategy.key(ranges[static_cast<size_t>(a)]), a) <
             std::pair(strategy.key(ranges[static_cast<size_t>(b)]), b);
    });
    Candidate candidate = Make(problem, std::move(order));
    PromoteHighest(problem, &candidate);
    CloseHoles(problem, &candidate);
    candidate.plan.strategy = strategy.name;
    if (best.plan.strategy.empty() || candidate.cost < best.cost) best = std::move(candidate);
  }
  return std::move(best.plan);
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
