#include "bench/together.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/sha256.h"
#include "base/status.h"
#include "bench/drawn_data.h"
#include "bench/fidelity_jobs.h"
#include "bench/progress.h"
#include "bench/zoo_jobs.h"
#include "graph/hash.h"
#include "model/zoo/zoo.h"
#include "runtime/engine.h"

namespace ebb::bench {
namespace {

using runtime::CoRunMode;
using runtime::Engine;
using runtime::LaunchReport;
using Launches = std::vector<std::vector<LaunchReport>>;

// The first steps of a job find their kernels' plans and are not measured.
constexpr int64_t kWarmUp = 3;

absl::StatusOr<runtime::JobSpec> ModelJob(const std::string& model, std::optional<int64_t> batch,
                                          int64_t steps, bool computes) {
  for (const std::string& name : FidelityJobs()) {
    if (name == model) return FidelityJob(model, steps);
  }
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(model, batch.value_or(1), steps));
  if (computes) EBB_RETURN_IF_ERROR(DrawData(2 * spec.batch_size, &spec));
  return spec;
}

absl::StatusOr<runtime::JobSpec> JobOf(const TogetherOptions& options, const std::string& model,
                                       std::optional<int64_t> batch, bool computes) {
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ModelJob(model, batch, options.steps, computes));
  spec.precision = options.precision;
  return spec;
}

struct Opened {
  std::unique_ptr<device::Device> device;
  device::SimDevice* clock = nullptr;  // of a simulated one
};
absl::StatusOr<Opened> Open(const std::string& name) {
  if (absl::StartsWith(name, "sim:")) {
    EBB_ASSIGN_OR_RETURN(std::unique_ptr<device::SimDevice> device, OpenSimulated(name));
    device::SimDevice* const clock = device.get();
    return Opened{std::move(device), clock};
  }
  EBB_ASSIGN_OR_RETURN(auto device, device::OpenDevice(name, {}));
  return Opened{std::move(device), nullptr};
}

absl::Status AwaitSuccess(const Engine& engine, JobId id) {
  EBB_ASSIGN_OR_RETURN(runtime::JobInfo info, engine.Get(id));
  while (!runtime::IsFinal(info.state)) {
    EBB_ASSIGN_OR_RETURN(info, engine.WaitForChange(id, info.version, absl::InfiniteFuture()));
  }
  if (info.state == runtime::JobState::kSucceeded) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("a job of ", info.name, " ended ", Name(info.state),
                                          " after ", info.step, " steps: ", info.message));
}

absl::StatusOr<std::string> BitsOf(const Engine& engine, JobId id) {
  EBB_ASSIGN_OR_RETURN(const auto result, engine.Result(id));
  Sha256 hash;
  graph::AddTensors(result->weights, &hash);
  graph::AddTensors(result->slots, &hash);
  return hash.HexDigest();
}

// Submits all of them, and lets none train on before all are there.
absl::StatusOr<std::vector<JobId>> SubmitAll(Engine& engine, device::SimDevice* clock,
                                             const runtime::JobSpec& spec, int jobs) {
  std::vector<JobId> ids;
  absl::Status status;
  if (clock != nullptr) clock->HoldClock();
  for (int j = 0; j < jobs && status.ok(); ++j) {
    const absl::StatusOr<JobId> id = engine.Submit(spec);
    status = id.status();
    if (!id.ok()) break;
    ids.push_back(*id);
    // A job that is too short for this ends first, and CommonWindow() says so.
    if (clock == nullptr && jobs > 1) engine.Pause(*id).IgnoreError();
  }
  if (clock != nullptr) clock->ReleaseClock();
  EBB_RETURN_IF_ERROR(status);
  if (clock == nullptr && jobs > 1) {
    for (const JobId id : ids) engine.Resume(id).IgnoreError();
  }
  return ids;
}

// From when all are warm to when the first is done.
absl::StatusOr<Window> CommonWindow(const Launches& launches, const std::string& model) {
  Window window{Micros(0), Micros(INT64_MAX)};
  for (const auto& of_job : launches) {
    const std::vector<Micros> ends = StepEnds(of_job);
    if (static_cast<int64_t>(ends.size()) <= kWarmUp) {
      return absl::InternalError(absl::StrCat(model, ": a job made ", ends.size(), " steps"));
    }
    window.begin = std::max(window.begin, ends[kWarmUp - 1]);
    window.end = std::min(window.end, ends.back());
  }
  if (window.length() > Micros(0)) return window;
  return absl::InternalError(
      absl::StrCat(model, ": the jobs were not all in training at one time; give more --steps"));
}

absl::StatusOr<TogetherRun> RunJobs(const TogetherOptions& options, const runtime::JobSpec& spec,
                                    int jobs, CoRunMode co_run) {
  EBB_ASSIGN_OR_RETURN(Opened opened, Open(options.device));
  const DeviceSpec device = opened.device->spec();
  Launches launches(static_cast<size_t>(jobs));
  runtime::EngineOptions engine_options{.memory = options.memory, .co_run = co_run};
  if (options.memory == Bytes(0)) engine_options.memory = device.memory;
  engine_options.on_launch = [&](const LaunchReport& launch) {  // ids count from 1
    launches[static_cast<size_t>(launch.job.value() - 1)].push_back(launch);
  };
  EBB_ASSIGN_OR_RETURN(auto engine, Engine::Create(std::move(opened.device), engine_options));
  EBB_ASSIGN_OR_RETURN(const std::vector<JobId> ids, SubmitAll(*engine, opened.clock, spec, jobs));
  TogetherRun run;
  for (const JobId id : ids) {
    EBB_ASSIGN_OR_RETURN(const runtime::JobInfo info, engine->Get(id));
    run.resident += info.resident + info.staging;
  }
  for (const runtime::LaneReport& lane : engine->Memory().lanes) run.lanes += lane.size;
  for (const JobId id : ids) {
    EBB_RETURN_IF_ERROR(AwaitSuccess(*engine, id));
    if (!device.computes) continue;
    EBB_ASSIGN_OR_RETURN(run.bits.emplace_back(), BitsOf(*engine, id));
  }
  const runtime::OverlapReport overlap = engine->Overlap();
  run.concurrent = overlap.wall > Micros(0) ? overlap.concurrent / overlap.wall : 0;
  engine.reset();  // no more launches are reported
  EBB_ASSIGN_OR_RETURN(const Window window, CommonWindow(launches, spec.name));
  double steps = 0;
  for (const auto& of_job : launches) steps += StepsWithin(of_job, window);
  run.samples = steps * static_cast<double>(spec.batch_size) /
                (static_cast<double>(window.length().count()) / 1e6);
  run.held = Bytes(static_cast<int64_t>(MeanBytesHeld(launches, window)));
  return run;
}

// The largest batches; and the one to train with, where none is given.
absl::Status ChooseBatch(const TogetherOptions& options, Bytes pool, TogetherRow* row) {
  EBB_ASSIGN_OR_RETURN(const Opened opened, Open(options.device));
  Needs needs(*opened.device, pool, row->model, options.precision);
  EBB_ASSIGN_OR_RETURN(row->solo_batch, needs.LargestBatch(1));
  EBB_ASSIGN_OR_RETURN(row->co_batch, needs.LargestBatch(options.jobs));
  if (row->co_batch == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options.jobs, " jobs of ", row->model, " do not fit into ", FormatBytes(pool),
                     " at any batch; give fewer --jobs or more --memory"));
  }
  row->batch = row->co_batch;
  return absl::OkStatus();
}

absl::StatusOr<TogetherRow> MeasureModel(const TogetherOptions& options, const std::string& model,
                                         bool computes, Bytes pool,
                                         const std::function<void(const std::string&)>& on_run) {
  TogetherRow row{.model = model};
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, JobOf(options, model, options.batch, computes));
  row.batch = spec.batch_size;
  if (!spec.model.zoo.empty() && !options.batch) {
    on_run(absl::StrCat(model, ", its largest batches"));
    EBB_RETURN_IF_ERROR(ChooseBatch(options, pool, &row));
    EBB_ASSIGN_OR_RETURN(spec, JobOf(options, model, row.batch, computes));
  }
  struct Mode {
    const char* name;
    TogetherRun* run;
    int jobs;
    CoRunMode co_run;
  };
  for (const Mode& mode : {Mode{"alone", &row.alone, 1, CoRunMode::kAuto},
                           Mode{"in turns", &row.turns, options.jobs, CoRunMode::kNever},
                           Mode{"always together", &row.always, options.jobs, CoRunMode::kAlways},
                           Mode{"together", &row.together, options.jobs, CoRunMode::kAuto}}) {
    on_run(absl::StrCat(model, ", batch ", row.batch, ", ", mode.name));
    EBB_ASSIGN_OR_RETURN(*mode.run, RunJobs(options, spec, mode.jobs, mode.co_run));
  }
  return row;
}

}  // namespace

bool TogetherRow::SameBits() const {
  for (const TogetherRun* run : {&alone, &turns, &always, &together}) {
    for (const std::string& bits : run->bits) {
      if (bits != alone.bits.front()) return false;
    }
  }
  return true;
}

absl::StatusOr<TogetherReport> MeasureTogether(
    const TogetherOptions& options, const std::function<void(const std::string&)>& on_run) {
  TogetherReport report{
      .jobs = options.jobs, .steps = options.steps, .precision = options.precision};
  {
    EBB_ASSIGN_OR_RETURN(const Opened opened, Open(options.device));
    report.device = opened.device->spec();
    const Bytes granule = opened.device->granules().granule();
    const Bytes memory = options.memory == Bytes(0) ? report.device.memory : options.memory;
    report.pool = granule * (memory.count() / granule.count());
  }
  for (const std::string& model : options.models) {
    EBB_RETURN_IF_ERROR(Annotate(JobOf(options, model, std::nullopt, false).status(), "--models"));
  }
  for (const std::string& model : options.models) {
    EBB_ASSIGN_OR_RETURN(report.models.emplace_back(),
                         MeasureModel(options, model, report.device.computes, report.pool, on_run));
  }
  return report;
}

}  // namespace ebb::bench
