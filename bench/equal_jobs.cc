#include "bench/equal_jobs.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status.h"
#include "bench/zoo_jobs.h"
#include "device/sim/sim_device.h"

namespace ebb::bench {
namespace {

absl::StatusOr<runtime::JobInfo> AwaitSuccess(const runtime::Engine& engine, JobId id,
                                              const EqualJobs& jobs) {
  EBB_ASSIGN_OR_RETURN(runtime::JobInfo info, engine.Get(id));
  while (!runtime::IsFinal(info.state)) {
    EBB_ASSIGN_OR_RETURN(info, engine.WaitForChange(id, info.version, absl::InfiniteFuture()));
  }
  if (info.state == runtime::JobState::kSucceeded && info.step == jobs.steps) return info;
  return absl::InternalError(absl::StrCat(jobs.model, ", batch ", jobs.batch, ": a job of ",
                                          jobs.jobs, " ended ", Name(info.state), " after ",
                                          info.step, " steps: ", info.message));
}

}  // namespace

absl::StatusOr<RunTimes> RunEqualJobs(const EqualJobs& jobs, runtime::EngineOptions options) {
  EBB_ASSIGN_OR_RETURN(std::unique_ptr<device::SimDevice> device, OpenSimulated(jobs.device));
  device::SimDevice* const clock = device.get();
  if (options.memory == Bytes(0)) options.memory = device->spec().memory;
  EBB_ASSIGN_OR_RETURN(const auto engine, runtime::Engine::Create(std::move(device), options));
  clock->HoldClock();
  std::vector<JobId> ids;
  absl::Status submitted;
  for (int j = 0; j < jobs.jobs && submitted.ok(); ++j) {
    EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(jobs.model, jobs.batch, jobs.steps));
    const auto id = engine->Submit(std::move(spec));
    if (id.ok()) ids.push_back(*id);
    submitted = id.status();
  }
  RunTimes times;
  if (submitted.ok()) {
    EBB_ASSIGN_OR_RETURN(const runtime::ExplainReport plan, engine->Explain(ids[0]));
    times.sub_models = static_cast<int64_t>(plan.sub_models.size());
  }
  clock->ReleaseClock();
  EBB_RETURN_IF_ERROR(submitted);

  for (const JobId id : ids) {
    EBB_ASSIGN_OR_RETURN(const runtime::JobInfo info, AwaitSuccess(*engine, id, jobs));
    const Micros start = info.device_start, end = info.device_start + info.elapsed;
    const bool first = id == ids.front();
    times.first_start = first ? start : std::min(times.first_start, start);
    times.last_start = std::max(times.last_start, start);
    times.first_end = first ? end : std::min(times.first_end, end);
    times.last_end = std::max(times.last_end, end);
    times.resident = info.resident;
  }
  times.overlap = engine->Overlap();
  return times;
}

}  // namespace ebb::bench
