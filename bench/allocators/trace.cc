#include "bench/allocators/trace.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "bench/zoo_jobs.h"
#include "device/sim/roofline.h"
#include "partitioner/partition.h"
#include "runtime/engine.h"
#include "runtime/prepare.h"

namespace ebb::bench {
namespace {

using device::SimDevice;
using Launches = std::vector<runtime::LaunchReport>;

// Instants of the device at which something is born (first) or dies (after all births then).
struct Event {
  double at = 0;
  TraceOp op;
};

// The launches of each job, in order, from the engine.
absl::StatusOr<std::vector<Launches>> Train(const std::string& name,
                                            const std::vector<TraceJob>& jobs, int64_t steps) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<SimDevice> device, OpenSimulated(name));
  SimDevice* const clock = device.get();
  const Bytes memory = PoolOf(*device);
  std::map<JobId, Launches> launches;  // the engine's thread, until the engine is gone
  std::vector<JobId> ids;
  {
    EBB_ASSIGN_OR_RETURN(const auto engine,
                         runtime::Engine::Create(std::move(device),
                                                 {.memory = memory,
                                                  .max_lanes = 1,
                                                  .co_run = runtime::CoRunMode::kAlways,
                                                  .on_launch = [&](const runtime::LaunchReport& l) {
                                                    launches[l.job].push_back(l);
                                                  }}));
    clock->HoldClock();
    for (const TraceJob& job : jobs) {
      EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(job.model, job.batch, steps));
      EBB_ASSIGN_OR_RETURN(ids.emplace_back(), engine->Submit(std::move(spec)));
    }
    clock->ReleaseClock();
    for (const JobId id : ids) {
      EBB_ASSIGN_OR_RETURN(runtime::JobInfo info, engine->Get(id));
      while (!runtime::IsFinal(info.state)) {
        EBB_ASSIGN_OR_RETURN(info, engine->WaitForChange(id, info.version, absl::InfiniteFuture()));
      }
      if (info.state != runtime::JobState::kSucceeded) return absl::InternalError(info.message);
    }
  }
  std::vector<Launches> of_jobs;
  of_jobs.reserve(ids.size());
  for (const JobId id : ids) of_jobs.push_back(std::move(launches[id]));
  if (of_jobs[1].empty() || of_jobs[1].front().start >= of_jobs[0].back().end) {
    return absl::ResourceExhaustedError("the jobs do not fit together: one waited for the other");
  }
  return of_jobs;
}

// Nodes of one step of a job, and what their kernels take alone.
struct Step {
  std::unique_ptr<runtime::PreparedJob> job;
  std::vector<double> until;               // by node: microseconds alone of all nodes before it
  std::vector<std::pair<int, int>> lives;  // of every range of the plan, by first and last node

  const runtime::StepProgram& program() const { return *job->programs()[0]; }
};

absl::StatusOr<Step> PrepareStep(SimDevice& device, const TraceJob& job) {
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(job.model, job.batch, 1));
  const Bytes pool = PoolOf(device);
  Step step;
  EBB_ASSIGN_OR_RETURN(step.job, runtime::Prepare(std::move(spec), device,
                                                  {.quantum = partitioner::QuantumFor(pool),
                                                   .memory = pool,
                                                   .purpose = runtime::Purpose::kSizes}));
  if (!step.job->IsPlanned()) {
    return absl::ResourceExhaustedError(
        absl::StrCat(job.model, ", batch ", job.batch, ": a step alone is larger than the pool"));
  }
  const runtime::StepProgram& program = step.program();
  double micros = 0;
  for (const graph::Node& node : program.graph.nodes) {
    step.until.push_back(micros);
    micros += device::CostAlone(device.profile(), program.graph, node).micros;
  }
  step.until.push_back(micros);
  for (const graph::Buffer& buffer : program.liveness.buffers) {
    step.lives.emplace_back(buffer.first, buffer.last);
  }
  step.lives.resize(program.range_bytes.size());
  for (size_t n = 0; n < program.workspace_range.size(); ++n) {
    const int range = program.workspace_range[n];
    if (range >= 0) step.lives[static_cast<size_t>(range)] = {n, n};
  }
  return step;
}

// Births and deaths of one job. A node's time is its share of its launch's, by what it takes alone.
absl::StatusOr<std::vector<Event>> EventsOf(const Step& step, int job, const Launches& launches,
                                            AllocationTrace* trace) {
  const runtime::StepProgram& program = step.program();
  std::vector<std::vector<int>> born(program.graph.nodes.size()), dying(born.size());
  for (size_t r = 0; r < step.lives.size(); ++r) {
    born[static_cast<size_t>(step.lives[r].first)].push_back(static_cast<int>(r));
    dying[static_cast<size_t>(step.lives[r].second)].push_back(static_cast<int>(r));
  }
  std::vector<Event> events;
  std::vector<int32_t> live(step.lives.size());  // the buffer of every range, in this step
  for (size_t l = 0; l < launches.size(); ++l) {
    const runtime::LaunchReport& launch = launches[l];
    const partitioner::SubModel& sub = program.partition.sub_models.at(launch.sub_model);
    if (launch.extent != program.profile.extent[launch.sub_model]) {
      return absl::InternalError("the engine cut the job otherwise than Prepare() does");
    }
    const double alone = step.until[sub.last + 1] - step.until[sub.first];
    const auto at = [&](int node) {
      const double part = alone > 0 ? (step.until[node] - step.until[sub.first]) / alone : 0;
      return static_cast<double>(launch.start.count()) +
             part * static_cast<double>((launch.end - launch.start).count());
    };
    for (int n = sub.first; n <= sub.last; ++n) {
      for (const int r : born[n]) {
        live[r] = static_cast<int32_t>(trace->buffers.size());
        trace->buffers.push_back({.bytes = program.range_bytes[r],
                                  .job = job,
                                  .launch = static_cast<int>(l),
                                  .outlives = step.lives[r].second > sub.last,
                                  .offset = program.plan.offset[r]});
        events.push_back({at(n), {live[r], true}});
      }
      for (const int r : dying[n]) events.push_back({at(n + 1), {live[r], false}});
    }
  }
  return events;
}

Bytes LivePeakOf(const AllocationTrace& trace) {
  Bytes live, peak;
  for (const TraceOp& op : trace.ops) {
    const Bytes bytes = trace.buffers[static_cast<size_t>(op.buffer)].bytes;
    live += op.birth ? bytes : -bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

// The largest sum of what the jobs' stacks reached, launch by launch.
Bytes PlannedPeakOf(const std::vector<Launches>& jobs) {
  struct Change {
    Micros at;
    bool grows = false;
    size_t job = 0;
    Bytes height;
  };
  std::vector<Change> changes;
  for (size_t j = 0; j < jobs.size(); ++j) {
    for (const runtime::LaunchReport& launch : jobs[j]) {
      changes.push_back({launch.start, true, j, launch.extent});
      changes.push_back({launch.end, false, j, launch.held_after});
    }
  }
  // What ends at an instant makes room for what starts then.
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) {
    return std::make_pair(a.at, a.grows) < std::make_pair(b.at, b.grows);
  });
  std::vector<Bytes> heights(jobs.size());
  Bytes sum, peak;
  for (const Change& change : changes) {
    sum += change.height - heights[change.job];
    heights[change.job] = change.height;
    peak = std::max(peak, sum);
  }
  return peak;
}

}  // namespace

absl::StatusOr<AllocationTrace> RecordTrace(const std::string& device,
                                            const std::vector<TraceJob>& jobs, int64_t steps) {
  EBB_ASSIGN_OR_RETURN(const std::unique_ptr<SimDevice> model, OpenSimulated(device));
  EBB_ASSIGN_OR_RETURN(const std::vector<Launches> launches, Train(device, jobs, steps));
  AllocationTrace trace;
  trace.name = absl::StrJoin(jobs, " + ", [](std::string* out, const TraceJob& job) {
    absl::StrAppend(out, job.model, " b", job.batch);
  });
  std::vector<Event> events;
  for (size_t j = 0; j < jobs.size(); ++j) {
    EBB_ASSIGN_OR_RETURN(const Step step, PrepareStep(*model, jobs[j]));
    EBB_ASSIGN_OR_RETURN(const std::vector<Event> own,
                         EventsOf(step, static_cast<int>(j), launches[j], &trace));
    std::vector<Event> merged;
    std::merge(events.begin(), events.end(), own.begin(), own.end(), std::back_inserter(merged),
               [](const Event& a, const Event& b) { return a.at < b.at; });
    events = std::move(merged);
  }
  for (const Event& event : events) trace.ops.push_back(event.op);
  trace.live_peak = LivePeakOf(trace);
  trace.planned_peak = PlannedPeakOf(launches);
  return trace;
}

}  // namespace ebb::bench
