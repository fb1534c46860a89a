#include "bench/fidelity_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status.h"
#include "bench/fidelity_jobs.h"
#include "bench/machine_load.h"
#include "bench/progress.h"
#include "runtime/engine.h"

namespace ebb::bench {
namespace {

using runtime::LaunchReport;
using Launches = std::vector<std::vector<LaunchReport>>;

constexpr int kWindows = 6;
constexpr double kWarmUp = 0.1;  // part of the common time

constexpr double kQuiet = 0.05;  // taken by others

void AwaitQuiet(double seconds) {
  const absl::Time deadline = absl::Now() + absl::Seconds(seconds);
  while (absl::Now() < deadline) {
    const MachineTimes before = ReadMachineTimes();
    absl::SleepFor(absl::Milliseconds(100));
    if (TakenByOthers(before, ReadMachineTimes()) <= kQuiet) return;
  }
}

// Most bytes held at once: regions all of the time, stacks from each launch to the next.
Bytes MostHeld(const Launches& launches) {
  std::map<Micros, Bytes> changes;
  Bytes regions;
  for (const std::vector<LaunchReport>& of_job : launches) {
    Bytes held;
    for (const LaunchReport& launch : of_job) {
      changes[launch.start] += launch.extent - held;
      changes[launch.end] += launch.held_after - launch.extent;
      held = launch.held_after;
    }
    if (!of_job.empty()) regions += of_job.front().region;
  }
  Bytes now, most;
  for (const auto& [time, change] : changes) {
    now += change;
    most = std::max(most, now);
  }
  return regions + most;
}

// Execution time of each step.
std::vector<double> BusyOf(const std::vector<LaunchReport>& launches) {
  std::vector<double> steps;
  double micros = 0;
  for (const LaunchReport& launch : launches) {
    micros += static_cast<double>((launch.end - launch.start).count());
    if (!launch.last) continue;
    steps.push_back(micros);
    micros = 0;
  }
  return steps;
}

// Time a step in each of a few windows within `common`, from the end of a step to that of another.
std::vector<double> StepTimes(const std::vector<LaunchReport>& launches, Window common) {
  std::vector<Micros> ends;
  for (const Micros end : StepEnds(launches)) {
    if (end >= common.begin && end <= common.end) ends.push_back(end);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<double> times;
  if (ends.size() < 2) return times;
  const size_t steps = ends.size() - 1, windows = std::min<size_t>(kWindows, steps);
  for (size_t w = 0; w < windows; ++w) {
    const size_t first = steps * w / windows, last = steps * (w + 1) / windows;
    times.push_back(static_cast<double>((ends[last] - ends[first]).count()) /
                    static_cast<double>(last - first));
  }
  return times;
}

absl::Status Measure(const Launches& launches, FidelityRun* run) {
  Window common{launches[0].front().start, launches[0].back().end};
  for (const auto& of_job : launches) {
    common.begin = std::max(common.begin, of_job.front().start);
    common.end = std::min(common.end, of_job.back().end);
  }
  common.begin +=
      Micros(static_cast<int64_t>(kWarmUp * static_cast<double>(common.length().count())));
  if (common.length() <= Micros(0)) {
    return absl::InternalError("the jobs did not train at the same time; raise --seconds");
  }
  for (const auto& of_job : launches) {
    const std::vector<double>& windows = run->windows.emplace_back(StepTimes(of_job, common));
    if (windows.empty()) return absl::InternalError("a job made no step; raise --seconds");
    run->step_micros.push_back(Median(windows));
    run->busy_micros.push_back(Median(BusyOf(of_job)));
  }
  run->launches_per_step =
      static_cast<double>(launches[0].size()) / static_cast<double>(StepEnds(launches[0]).size());
  return absl::OkStatus();
}

std::vector<Bytes> LanesOf(const runtime::Engine& engine) {
  std::vector<Bytes> sizes;
  for (const runtime::LaneReport& lane : engine.Memory().lanes) sizes.push_back(lane.size);
  return sizes;
}

// Until all jobs train.
absl::Status AwaitStart(const runtime::Engine& engine, const std::vector<JobId>& ids,
                        FidelityRun* run) {
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  for (const JobId id : ids) {
    EBB_ASSIGN_OR_RETURN(runtime::JobInfo info, engine.Get(id));
    while (info.step == 0 && !runtime::IsFinal(info.state) && absl::Now() < deadline) {
      EBB_ASSIGN_OR_RETURN(info, engine.WaitForChange(id, info.version, deadline));
    }
    run->bytes.push_back({info.resident, info.staging, info.step_peak, Bytes(0)});
  }
  return absl::OkStatus();
}

absl::Status AwaitFirstEnd(const runtime::Engine& engine, const std::vector<JobId>& ids) {
  const absl::Time deadline = absl::Now() + absl::Minutes(2);
  for (;;) {
    for (const JobId id : ids) {
      EBB_ASSIGN_OR_RETURN(const runtime::JobInfo info, engine.Get(id));
      if (info.state == runtime::JobState::kSucceeded) return absl::OkStatus();
      if (runtime::IsFinal(info.state) || absl::Now() >= deadline) {
        return absl::InternalError(absl::StrCat("job ", info.name, " is ", Name(info.state),
                                                " after ", info.step, " steps: ", info.message,
                                                info.why));
      }
    }
    EBB_ASSIGN_OR_RETURN(const runtime::JobInfo info, engine.Get(ids[0]));
    EBB_RETURN_IF_ERROR(
        engine.WaitForChange(ids[0], info.version, absl::Now() + absl::Milliseconds(20)).status());
  }
}

}  // namespace

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Bytes FidelityRun::Peak() const {
  Bytes sum;
  for (const JobBytes& job : bytes) sum += job.resident + job.staging;
  for (const Bytes lane : lanes) sum += lane;
  return sum;
}

absl::StatusOr<FidelityRun> RunJobs(std::unique_ptr<device::Device> device,
                                    device::SimDevice* clock, Bytes pool,
                                    const std::vector<std::string>& jobs,
                                    const std::vector<int64_t>& steps) {
  FidelityRun run;
  Launches launches(jobs.size());
  // Always together: what is compared is what jobs cost each other.
  runtime::EngineOptions options{.memory = pool, .co_run = runtime::CoRunMode::kAlways};
  options.on_launch = [&](const LaunchReport& launch) {  // ids count from 1
    launches[static_cast<size_t>(launch.job.value() - 1)].push_back(launch);
  };
  EBB_ASSIGN_OR_RETURN(auto engine, runtime::Engine::Create(std::move(device), options));
  if (clock != nullptr) clock->HoldClock();
  std::vector<JobId> ids;
  absl::Status submitted;
  for (size_t j = 0; j < jobs.size() && submitted.ok(); ++j) {
    auto spec = FidelityJob(jobs[j], steps[j]);
    submitted = spec.status();
    if (!submitted.ok()) break;
    const auto id = engine->Submit(*std::move(spec));
    submitted = id.status();
    if (id.ok()) ids.push_back(*id);
  }
  if (clock != nullptr) {
    if (submitted.ok()) run.lanes = LanesOf(*engine);
    clock->ReleaseClock();
  }
  EBB_RETURN_IF_ERROR(submitted);
  EBB_RETURN_IF_ERROR(AwaitStart(*engine, ids, &run));
  if (clock == nullptr) run.lanes = LanesOf(*engine);
  const MachineTimes before = ReadMachineTimes();
  const absl::Time since = absl::Now();
  EBB_RETURN_IF_ERROR(AwaitFirstEnd(*engine, ids));
  const MachineTimes after = ReadMachineTimes();
  run.own = (after.own - before.own) / absl::ToDoubleSeconds(absl::Now() - since);
  run.others = TakenByOthers(before, after);
  engine.reset();  // no more launches are reported
  EBB_RETURN_IF_ERROR(Measure(launches, &run));
  for (size_t j = 0; j < jobs.size(); ++j) run.bytes[j].held = MostHeld({launches[j]});
  run.together = MostHeld(launches);
  return run;
}

absl::StatusOr<std::vector<FidelityRun>> RunOnCpu(const FidelityOptions& options,
                                                  const std::vector<std::string>& jobs,
                                                  const std::vector<int64_t>& steps) {
  std::vector<FidelityRun> runs;
  for (int r = 0; r < options.repeats; ++r) {
    AwaitQuiet(options.patience);
    EBB_ASSIGN_OR_RETURN(auto cpu, device::OpenDevice("cpu", {}));
    EBB_ASSIGN_OR_RETURN(runs.emplace_back(),
                         RunJobs(std::move(cpu), nullptr, options.pool, jobs, steps));
  }
  std::sort(runs.begin(), runs.end(),
            [](const FidelityRun& a, const FidelityRun& b) { return a.others < b.others; });
  runs.resize((runs.size() + 1) / 2);
  return runs;
}

double StepMicros(const std::vector<FidelityRun>& runs, size_t job) {
  std::vector<double> micros;
  micros.reserve(runs.size());
  for (const FidelityRun& run : runs) micros.push_back(run.step_micros[job]);
  return Median(micros);
}

}  // namespace ebb::bench
