#include "bench/granularity.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "bench/equal_jobs.h"
#include "bench/zoo_jobs.h"
#include "model/zoo/zoo.h"

namespace ebb::bench {
namespace {

// The quantum at which a model's saved bytes make so many groups.
absl::StatusOr<Bytes> QuantumOf(device::SimDevice& device, const std::string& model, int64_t batch,
                                int64_t groups) {
  EBB_ASSIGN_OR_RETURN(const Bytes saved, SavedBytes(device, model, batch));
  return Bytes((saved.count() + groups - 1) / groups);
}

}  // namespace

absl::StatusOr<GranularityReport> MeasureGranularity(
    const GranularityOptions& options, const std::function<void(const std::string&)>& on_model) {
  EBB_ASSIGN_OR_RETURN(const std::unique_ptr<device::SimDevice> device,
                       OpenSimulated(options.device));
  GranularityReport report{.device = device->spec(), .options = options};
  std::vector<std::string> models = options.models;
  if (models.empty()) {
    for (const model::ZooEntry& entry : model::Zoo()) models.emplace_back(entry.name);
  }
  for (const std::string& model : models) {  // a wrong name is an error before any work
    EBB_RETURN_IF_ERROR(Annotate(model::BuildZooModel(model, 1).status(), "--models"));
  }
  for (const std::string& model : models) {
    on_model(model);
    EBB_ASSIGN_OR_RETURN(const int64_t largest, Needs(*device, model).LargestBatch(1));
    GranularityRow row{.name = model};
    row.batch = std::max<int64_t>(
        1, static_cast<int64_t>(std::floor(static_cast<double>(largest) * options.fraction)));
    EqualJobs jobs{options.device, model, row.batch, 1, options.steps};
    EBB_ASSIGN_OR_RETURN(const RunTimes alone, RunEqualJobs(jobs, {}));
    jobs.jobs = 2;
    for (const int64_t groups : options.groups) {
      EBB_ASSIGN_OR_RETURN(const Bytes quantum, QuantumOf(*device, model, row.batch, groups));
      EBB_ASSIGN_OR_RETURN(
          const RunTimes both,
          RunEqualJobs(jobs, {.quantum = quantum, .co_run = runtime::CoRunMode::kAlways}));
      if (!both.Overlapped()) {
        return absl::ResourceExhaustedError(absl::StrCat(
            model, ", batch ", row.batch, ": two jobs do not fit at once; lower --fraction"));
      }
      row.points.push_back({groups, both.sub_models, 2 * (alone.Span() / both.Span()),
                            both.overlap.concurrent / both.overlap.wall});
    }
    report.models.push_back(std::move(row));
  }
  return report;
}

}  // namespace ebb::bench
