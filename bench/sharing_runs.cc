#include "bench/sharing_runs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "base/status.h"
#include "bench/baselines/paging.h"
#include "bench/baselines/policies.h"
#include "bench/baselines/stream_pool.h"
#include "bench/progress.h"
#include "partitioner/partition.h"
#include "runtime/engine.h"

namespace ebb::bench {
namespace {

using device::OverlapModel;
using device::SimDevice;

constexpr double kWarmUp = 0.1;  // part of the time before the window

using Works = std::vector<const Workload*>;

Bytes Resident(const Works& works) {
  Bytes sum;
  for (const Workload* work : works) sum += work->resident;
  return sum;
}

Bytes Peak(const Works& works) {
  Bytes peak;
  for (const Workload* work : works) peak = std::max(peak, work->Peak());
  return peak;
}

Bytes Footprints(const Works& works) {
  Bytes sum;
  for (const Workload* work : works) sum += work->Footprint();
  return sum;
}

double Busy(const std::vector<std::vector<runtime::LaunchReport>>& jobs, Window window,
            int at_least) {
  std::map<Micros, int> edges;
  for (const auto& launches : jobs) {
    for (const runtime::LaunchReport& launch : launches) {
      const Micros begin = std::max(launch.start, window.begin);
      const Micros end = std::min(launch.end, window.end);
      if (begin >= end) continue;
      ++edges[begin];
      --edges[end];
    }
  }
  Micros sum, since;
  int depth = 0;
  for (const auto& [time, change] : edges) {
    if (depth >= at_least) sum += time - since;
    since = time;
    depth += change;
  }
  return sum / window.length();
}

// `works[j]` ran, `full[j]` is what it is measured by.
MixResult Measure(const std::vector<std::vector<runtime::LaunchReport>>& launches, Window window,
                  const Works& works, const Works& full, Bytes pool) {
  MixResult result;
  const auto length = static_cast<double>(window.length().count());
  for (size_t j = 0; j < works.size(); ++j) {
    const double steps = StepsWithin(launches[j], window);
    const double samples =
        static_cast<double>(works[j]->batch) / static_cast<double>(full[j]->batch);
    result.progress.push_back(steps * samples * full[j]->alone_micros / length);
    result.least_steps = j == 0 ? steps : std::min(result.least_steps, steps);
  }
  result.pool_use = MeanBytesHeld(launches, window) / static_cast<double>(pool.count());
  result.busy = Busy(launches, window, 1);
  result.concurrent = Busy(launches, window, 2);
  return result;
}

}  // namespace

double MixResult::Sum() const { return std::accumulate(progress.begin(), progress.end(), 0.0); }

double MixResult::Worst() const {
  if (progress.empty()) return 0;
  return *std::min_element(progress.begin(), progress.end()) * static_cast<double>(progress.size());
}

const std::vector<std::string>& SharingPolicies() {
  static const auto* const kNames = new std::vector<std::string>{"ebb",
                                                                 "ebb, always co-run",
                                                                 "ebb, even",
                                                                 "time sharing",
                                                                 "time sharing, in turn",
                                                                 "time sharing, host gap",
                                                                 "spatial, shrunk to fit",
                                                                 "spatial, oversubscribed",
                                                                 "streams + stream-ordered pool",
                                                                 "greedy",
                                                                 "banker",
                                                                 "tick-tock",
                                                                 "unlimited memory"};
  return *kNames;
}

SharingBench::SharingBench(device::SimProfile profile, SharingAssumptions assumptions,
                           int64_t steps)
    : profile_(std::move(profile)),
      assumptions_(assumptions),
      steps_(steps),
      device_(profile_, OverlapModel::kSlots),
      pool_(PoolOf(device_)) {}

absl::StatusOr<int64_t> SharingBench::SoloBatch(const std::string& model) {
  return needs_.try_emplace(model, device_, model).first->second.LargestBatch(1);
}

absl::StatusOr<const Workload*> SharingBench::Work(const MixJob& job) {
  std::unique_ptr<Workload>& known = works_[{job.model, job.batch}];
  if (known != nullptr) return known.get();
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(job.model, job.batch, 1));
  EBB_ASSIGN_OR_RETURN(const auto prepared,
                       runtime::Prepare(std::move(spec), device_,
                                        {.quantum = partitioner::QuantumFor(pool_),
                                         .purpose = runtime::Purpose::kSizes}));
  auto work = std::make_unique<Workload>(WorkloadOf(*prepared, profile_));

  constexpr int kTimed = 10;
  double most = profile_.step_us + work->batch_micros;
  for (const SubModelWork& sub : work->sub_models) {
    most += sub.micros + profile_.admission_us + (sub.last - sub.first + 1) * profile_.launch_us;
  }
  Simulation alone(profile_, OverlapModel::kSlots, {work.get()}, pool_);
  TimeSharing policy(0);
  alone.Run(policy, (kTimed + 3) * most);
  const std::vector<Micros> ends = StepEnds(alone.launches()[0]);
  EBB_CHECK(ends.size() > kTimed);
  const Window window{ends[1], ends.back()};
  work->alone_micros =
      static_cast<double>(window.length().count()) / static_cast<double>(ends.size() - 2);
  work->alone_held =
      MeanBytesHeld(alone.launches(), window) - static_cast<double>(work->resident.count());
  known = std::move(work);
  return known.get();
}

double SharingBench::Horizon(const Works& works) const {
  double longest = 0;
  for (const Workload* work : works) longest = std::max(longest, work->alone_micros);
  return longest * static_cast<double>(works.size()) * static_cast<double>(steps_) / (1 - kWarmUp);
}

absl::StatusOr<Works> SharingBench::Shrink(const std::vector<MixJob>& mix, const Works& works) {
  double factor = 1;
  Works shrunk = works;
  while (Footprints(shrunk) > pool_) {
    const Bytes room = pool_ - Resident(shrunk);
    const bool least = std::all_of(shrunk.begin(), shrunk.end(),
                                   [](const Workload* work) { return work->batch == 1; });
    if (least || room <= Bytes(0)) return Works();
    // Footprints are nearly straight lines in the batch.
    factor *= std::min(0.995, room / (Footprints(shrunk) - Resident(shrunk)));
    for (size_t j = 0; j < mix.size(); ++j) {
      const auto batch = static_cast<int64_t>(factor * static_cast<double>(mix[j].batch));
      EBB_ASSIGN_OR_RETURN(shrunk[j], Work({mix[j].model, std::max<int64_t>(1, batch)}));
    }
  }
  return shrunk;
}

absl::StatusOr<MixResult> SharingBench::RunEbb(runtime::EngineOptions options, OverlapModel overlap,
                                               const std::vector<MixJob>& mix, const Works& works) {
  std::vector<std::vector<runtime::LaunchReport>> launches(mix.size());
  std::map<JobId, size_t> index;
  auto device = std::make_unique<SimDevice>(profile_, overlap);
  SimDevice* const clock = device.get();
  clock->HoldClock();
  options.memory = pool_;
  options.on_launch = [&](const runtime::LaunchReport& launch) {
    launches[index.at(launch.job)].push_back(launch);
  };
  EBB_ASSIGN_OR_RETURN(const auto engine, runtime::Engine::Create(std::move(device), options));
  absl::Status submitted;
  const double horizon = Horizon(works) / static_cast<double>(mix.size());
  for (size_t j = 0; j < mix.size() && submitted.ok(); ++j) {
    const auto steps = static_cast<int64_t>(std::ceil(horizon / works[j]->alone_micros)) + 2;
    EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(mix[j].model, mix[j].batch, steps));
    const auto id = engine->Submit(std::move(spec));
    if (id.ok()) index[*id] = j;
    submitted = id.status();
  }
  clock->ReleaseClock();
  EBB_RETURN_IF_ERROR(submitted);
  for (const auto& [id, j] : index) {
    EBB_ASSIGN_OR_RETURN(runtime::JobInfo info, engine->Get(id));
    while (!runtime::IsFinal(info.state)) {
      EBB_ASSIGN_OR_RETURN(info, engine->WaitForChange(id, info.version, absl::InfiniteFuture()));
    }
    if (info.state != runtime::JobState::kSucceeded) {
      return absl::InternalError(
          absl::StrCat(mix[j].model, " ended ", Name(info.state), ": ", info.message));
    }
  }
  Window window{.end = Micros(INT64_MAX)};
  for (const auto& job : launches) {
    const std::vector<Micros> ends = StepEnds(job);
    window.begin = std::max(window.begin, ends[1]);
    window.end = std::min(window.end, ends.back());
  }
  window.begin =
      std::max(window.begin,
               Micros(static_cast<int64_t>(kWarmUp * static_cast<double>(window.end.count()))));
  if (window.begin >= window.end) {
    return MixResult{.infeasible = "the engine did not train all jobs at one time"};
  }
  return Measure(launches, window, works, works, pool_);
}

absl::StatusOr<double> SharingBench::EngineAlone(const MixJob& job) {
  EBB_ASSIGN_OR_RETURN(const Workload* work, Work(job));
  EBB_ASSIGN_OR_RETURN(const MixResult alone, RunEbb({.co_run = runtime::CoRunMode::kAlways},
                                                     OverlapModel::kSlots, {job}, {work}));
  return alone.Sum();
}

absl::StatusOr<MixResult> SharingBench::Run(const std::string& policy, OverlapModel overlap,
                                            const std::vector<MixJob>& mix) {
  Works works;
  for (const MixJob& job : mix) {
    EBB_ASSIGN_OR_RETURN(const int64_t solo, SoloBatch(job.model));
    if (job.batch < 1 || job.batch > solo) {
      return MixResult{.infeasible = absl::StrCat(job.model, " alone trains at batch ", solo,
                                                  " at most, not ", job.batch)};
    }
    EBB_ASSIGN_OR_RETURN(works.emplace_back(), Work(job));
  }
  if (policy == "ebb") return RunEbb({}, overlap, mix, works);
  if (policy == "ebb, always co-run") {
    return RunEbb({.co_run = runtime::CoRunMode::kAlways}, overlap, mix, works);
  }
  if (policy == "ebb, even") {
    return RunEbb({.policy = scheduler::Policy::kEven}, overlap, mix, works);
  }

  Works run = works;
  const int jobs = static_cast<int>(mix.size());
  std::unique_ptr<SharingPolicy> sharing;
  if (policy == "spatial, shrunk to fit") {
    EBB_ASSIGN_OR_RETURN(run, Shrink(mix, works));
    if (run.empty()) return MixResult{.infeasible = "the jobs do not fit at batch 1"};
    sharing = std::make_unique<Spatial>();
  } else if (policy == "spatial, oversubscribed") {
    const double bandwidth = profile_.bus_bytes_per_us() * assumptions_.paging_of_bus;
    sharing = std::make_unique<PagedSpatial>(works, pool_, bandwidth);
  } else if (policy == "unlimited memory") {
    sharing = std::make_unique<Spatial>();
  } else if (Resident(works) + Peak(works) > pool_) {
    return MixResult{.infeasible = absl::StrCat("all state and one step need ",
                                                FormatBytes(Resident(works) + Peak(works)), " of ",
                                                FormatBytes(pool_))};
  } else if (policy == "time sharing") {
    sharing = std::make_unique<TimeSharing>(0);
  } else if (policy == "time sharing, in turn") {
    sharing = std::make_unique<TimeSharing>(0, TimeSharing::Order::kInTurn);
  } else if (policy == "time sharing, host gap") {
    sharing = std::make_unique<TimeSharing>(assumptions_.host_gap);
  } else if (policy == "streams + stream-ordered pool") {
    sharing = std::make_unique<StreamPool>(jobs, assumptions_.launch_queue, profile_.launch_us);
  } else if (policy == "greedy") {
    sharing = std::make_unique<Greedy>();
  } else if (policy == "banker") {
    sharing = std::make_unique<Banker>();
  } else {
    EBB_CHECK(policy == "tick-tock");
    sharing = std::make_unique<TickTock>(jobs);
  }
  const double horizon = Horizon(works);
  Simulation sim(profile_, overlap, run, pool_);
  sim.Run(*sharing, horizon);
  const Window window{device::Timeline::Stamp(kWarmUp * horizon), device::Timeline::Stamp(horizon)};
  MixResult result = Measure(sim.launches(), window, run, works, pool_);
  result.dropped_steps = sim.drops();
  return result;
}

}  // namespace ebb::bench
