#include "scheduler/packing.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace ebb::scheduler {
namespace {

// Jobs by falling peak, cut into consecutive runs: run 0 has `first` jobs, the rest is spread
// evenly.
std::vector<size_t> RunStarts(size_t jobs, size_t lanes, size_t first) {
  std::vector<size_t> starts = {0};
  size_t at = first;
  for (size_t lane = 1; lane < lanes; ++lane) {
    starts.push_back(at);
    at += (jobs - at) / (lanes - lane);
  }
  starts.push_back(jobs);
  return starts;
}

struct Plan {
  std::vector<size_t> starts;
  std::vector<Bytes> sizes;
  double in_flight =
      0;             // steps that fit at once; a follower counts by the part of its peak that fits
  double queue = 0;  // the most jobs for one step in flight
};

// Sizes for one way to cut; false if it does not fit.
bool Size(const std::vector<PackingJob>& jobs, Bytes available, Bytes granule, Plan* plan) {
  const size_t lanes = plan->starts.size() - 1;
  Bytes left = available;
  std::vector<std::pair<Bytes, size_t>> wants;  // what the lane's second job lacks
  for (size_t lane = 0; lane < lanes; ++lane) {
    const size_t first = plan->starts[lane];
    const size_t second = first + 1;
    plan->sizes.push_back(AlignUp(jobs[first].peak, granule));
    left -= plan->sizes.back();
    if (second < plan->starts[lane + 1]) {
      const Bytes both = AlignUp(jobs[first].peak + jobs[second].peak, granule);
      wants.emplace_back(both - plan->sizes.back(), lane);
    }
  }
  if (left < Bytes(0)) return false;
  std::vector<double> places(lanes, 1.0);
  std::sort(wants.begin(), wants.end());  // the cheapest pair first
  for (const auto& [want, lane] : wants) {
    const Bytes more = std::min(want, Bytes(left.count() / granule.count() * granule.count()));
    plan->sizes[lane] += more;
    left -= more;
    places[lane] += want == Bytes(0) ? 1.0 : more / want;
  }
  for (size_t lane = 0; lane < lanes; ++lane) {
    const auto count = static_cast<double>(plan->starts[lane + 1] - plan->starts[lane]);
    plan->in_flight += places[lane];
    plan->queue = std::max(plan->queue, count / places[lane]);
  }
  return true;
}

bool Better(const Plan& a, const Plan& b) {
  return std::tuple(a.in_flight, -a.queue, a.sizes.size()) >
         std::tuple(b.in_flight, -b.queue, b.sizes.size());
}

}  // namespace

absl::StatusOr<std::vector<PackedLane>> PackLanes(std::vector<PackingJob> jobs, Bytes available,
                                                  Bytes granule, int max_lanes) {
  EBB_CHECK(granule > Bytes(0) && max_lanes >= 1);
  if (jobs.empty()) return std::vector<PackedLane>();
  std::sort(jobs.begin(), jobs.end(), [](const PackingJob& a, const PackingJob& b) {
    return std::tuple(-a.peak, a.job) < std::tuple(-b.peak, b.job);
  });
  if (AlignUp(jobs.front().peak, granule) > available) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "job ", jobs.front().job.value(), " needs ", FormatBytes(jobs.front().peak), " (",
        jobs.front().peak.count(), " bytes) for one step, but only ", FormatBytes(available), " (",
        available.count(), " bytes) are left for lanes; lower its batch size, stop another job or ",
        "give the pool more memory"));
  }
  Plan best;
  const size_t most = std::min(jobs.size(), static_cast<size_t>(max_lanes));
  for (size_t lanes = 1; lanes <= most; ++lanes) {
    const size_t longest = jobs.size() - lanes + 1;
    for (size_t first = lanes == 1 ? longest : 1; first <= longest; ++first) {
      Plan plan;
      plan.starts = RunStarts(jobs.size(), lanes, first);
      if (Size(jobs, available, granule, &plan) && (best.sizes.empty() || Better(plan, best))) {
        best = std::move(plan);
      }
    }
  }
  EBB_CHECK(!best.sizes.empty());  // one lane of the largest peak always fits
  std::vector<PackedLane> lanes(best.sizes.size());
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes[lane].size = best.sizes[lane];
    for (size_t i = best.starts[lane]; i < best.starts[lane + 1]; ++i) {
      lanes[lane].jobs.push_back(jobs[i].job);
    }
  }
  return lanes;
}

}  // namespace ebb::scheduler
