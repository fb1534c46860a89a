#include "bench/capacity.h"

#include <algorithm>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/equal_jobs.h"
#include "bench/zoo_jobs.h"
#include "device/sim/sim_device.h"
#include "model/zoo/zoo.h"

namespace ebb::bench {
namespace {

using device::SimDevice;

absl::StatusOr<RunTimes> RunJobs(const CapacityOptions& options, const std::string& model,
                                 int64_t batch, int jobs) {
  return RunEqualJobs({options.device, model, batch, jobs, options.steps}, {});
}

// The engine refuses one more sample, or does not train all of the jobs at one time then.
absl::Status CheckLargest(const CapacityOptions& options, const std::string& model, int64_t batch,
                          int jobs) {
  const absl::StatusOr<RunTimes> more = RunJobs(options, model, batch + 1, jobs);
  if (!more.ok()) {
    return absl::IsResourceExhausted(more.status()) ? absl::OkStatus() : more.status();
  }
  if (!more->Overlapped()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(model, ": batch ", batch, " was found the largest of ",
                                          jobs, " jobs, but the engine takes one more"));
}

absl::StatusOr<CapacityRow> MeasureModel(const CapacityOptions& options, const std::string& model,
                                         Needs& needs, Bytes pool) {
  CapacityRow row{.name = model};
  EBB_ASSIGN_OR_RETURN(row.solo_batch, needs.LargestBatch(1));
  EBB_ASSIGN_OR_RETURN(row.co_batch, needs.LargestBatch(options.jobs));
  if (row.co_batch == 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options.jobs, " jobs of ", model, " do not fit into ", FormatBytes(pool),
                     " at any batch; give fewer --jobs or a larger --device"));
  }
  // The engine has the last word on both batches.
  EBB_RETURN_IF_ERROR(RunJobs(options, model, row.solo_batch, 1).status());
  EBB_RETURN_IF_ERROR(CheckLargest(options, model, row.solo_batch, 1));
  EBB_RETURN_IF_ERROR(CheckLargest(options, model, row.co_batch, options.jobs));
  EBB_ASSIGN_OR_RETURN(const RunTimes alone, RunJobs(options, model, row.co_batch, 1));
  EBB_ASSIGN_OR_RETURN(const RunTimes turns, RunEqualJobs({options.device, model, row.co_batch,
                                                           options.jobs, options.steps},
                                                          {.co_run = runtime::CoRunMode::kNever}));
  EBB_ASSIGN_OR_RETURN(const RunTimes together,
                       RunJobs(options, model, row.co_batch, options.jobs));
  if (!together.Overlapped()) {
    return absl::InternalError(absl::StrCat(model, ", batch ", row.co_batch, ": ", options.jobs,
                                            " jobs were not all in training at one time"));
  }
  EBB_ASSIGN_OR_RETURN(const auto one, needs.Chosen(1, row.solo_batch));
  EBB_ASSIGN_OR_RETURN(const auto all, needs.Chosen(options.jobs, row.co_batch));
  std::map<std::string, int> levels;
  for (const runtime::LevelNeed& level : all) {
    row.resident += level.region;
    ++levels[level.name];
  }
  for (const auto& [name, jobs] : levels) {
    absl::StrAppend(&row.levels, row.levels.empty() ? "" : ", ", jobs, " ", name);
  }
  row.fraction = static_cast<double>(row.co_batch) / static_cast<double>(row.solo_batch);
  row.ceiling = (pool - row.resident) / (pool - one.front().region);
  row.of_ceiling = row.fraction / row.ceiling;
  row.concurrent = together.overlap.concurrent / together.overlap.wall;
  row.progress = options.jobs * (alone.Span() / together.Span());
  row.turns = options.jobs * (alone.Span() / turns.Span());
  return row;
}

}  // namespace

double CapacityReport::MinFraction() const {
  double least = models.empty() ? 0 : models[0].fraction;
  for (const CapacityRow& row : models) least = std::min(least, row.fraction);
  return least;
}

double CapacityReport::MeanFraction() const {
  double sum = 0;
  for (const CapacityRow& row : models) sum += row.fraction;
  return models.empty() ? 0 : sum / static_cast<double>(models.size());
}

absl::StatusOr<CapacityReport> MeasureCapacity(
    const CapacityOptions& options, const std::function<void(const std::string&)>& on_model) {
  EBB_ASSIGN_OR_RETURN(const std::unique_ptr<SimDevice> device, OpenSimulated(options.device));
  CapacityReport report{.device = device->spec(),
                        .pool = PoolOf(*device),
                        .jobs = options.jobs,
                        .steps = options.steps};
  std::vector<std::string> models = options.models;
  if (models.empty()) {
    for (const model::ZooEntry& entry : model::Zoo()) models.emplace_back(entry.name);
  }
  for (const std::string& model :
       models) {  // a wrong name is an error before the others take their time
    EBB_RETURN_IF_ERROR(Annotate(model::BuildZooModel(model, 1).status(), "--models"));
  }
  for (const std::string& model : models) {
    on_model(model);
    Needs needs(*device, model);
    EBB_ASSIGN_OR_RETURN(CapacityRow row, MeasureModel(options, model, needs, report.pool));
    report.models.push_back(std::move(row));
  }
  return report;
}

}  // namespace ebb::bench
