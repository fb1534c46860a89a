#include "bench/zoo_jobs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "model/zoo/zoo.h"
#include "partitioner/partition.h"
#include "runtime/needs.h"
#include "runtime/prepare.h"

namespace ebb::bench {

absl::StatusOr<std::unique_ptr<device::SimDevice>> OpenSimulated(const std::string& name) {
  absl::string_view profile = name;
  if (!absl::ConsumePrefix(&profile, "sim:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--device: '", name, "' is not simulated; give sim:PROFILE"));
  }
  return device::OpenSim(std::string(profile), {},
                         [](const std::string& like) { return device::OpenDevice(like, {}); });
}

absl::StatusOr<runtime::JobSpec> ZooJob(const std::string& model, int64_t batch, int64_t steps) {
  EBB_ASSIGN_OR_RETURN(const model::ZooModel zoo, model::BuildZooModel(model, 1));
  runtime::JobSpec spec;
  spec.name = model;
  spec.model.zoo = model;
  spec.batch_size = batch;
  spec.stop.steps = steps;
  spec.ladder.recompute = false;
  spec.ladder.micro_batches = 1;
  spec.loss = zoo.loss;
  spec.optimizer = zoo.optimizer;
  return spec;
}

Bytes PoolOf(device::SimDevice& device) {
  const Bytes granule = device.granules().granule();
  return granule * (device.spec().memory.count() / granule.count());
}

absl::StatusOr<Bytes> SavedBytes(device::SimDevice& device, const std::string& model,
                                 int64_t batch) {
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(model, batch, 1));
  EBB_ASSIGN_OR_RETURN(const auto job,
                       runtime::Prepare(std::move(spec), device,
                                        {.quantum = partitioner::QuantumFor(PoolOf(device)),
                                         .purpose = runtime::Purpose::kSizes}));
  Bytes saved;
  for (const partitioner::SubModel& sub : job->programs()[0]->partition.sub_models) {
    saved += sub.saved;
  }
  return saved;
}

Needs::Needs(device::SimDevice& device, std::string model)
    : Needs(device, PoolOf(device), std::move(model)) {}
Needs::Needs(device::SimDevice& device, Bytes pool, std::string model)
    : device_(device),
      granule_(device.granules().granule()),
      pool_(pool),
      model_(std::move(model)) {}

absl::StatusOr<Needs::Known*> Needs::Look(int64_t batch) {
  if (const auto it = known_.find(batch); it != known_.end()) return &it->second;
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(model_, batch, 1));
  const runtime::PrepareOptions options{.quantum = partitioner::QuantumFor(pool_),
                                        .memory = pool_,
                                        .purpose = runtime::Purpose::kSizes};
  auto job = runtime::Prepare(std::move(spec), device_, options);
  if (!job.ok() && job.status().code() != absl::StatusCode::kResourceExhausted) {
    return job.status();
  }
  Known known;
  if (job.ok()) {
    known.levels = runtime::NeedsOf(JobId(), **job, device_.spec()).levels;
    known.one = {.planned = (*job)->IsPlanned(),
                 .region = AlignUp(known.levels[0].region, granule_),
                 .lane = AlignUp(known.levels[0].lane, granule_)};
    known.prepared = *std::move(job);
  }
  return &known_.emplace(batch, std::move(known)).first->second;
}

absl::StatusOr<Needs::OneJob> Needs::Of(int64_t batch) {
  EBB_ASSIGN_OR_RETURN(const Known* known, Look(batch));
  return known->one;
}

absl::StatusOr<std::vector<runtime::LevelNeed>> Needs::Levels(int64_t batch) {
  EBB_ASSIGN_OR_RETURN(Known* const known, Look(batch));
  if (known->prepared != nullptr) {
    EBB_RETURN_IF_ERROR(runtime::Deepen(
        known->prepared->Base(), runtime::LadderDepth::kStreamed, device_,
        {.quantum = partitioner::QuantumFor(pool_), .memory = pool_}, &known->prepared->ladder));
    known->levels = runtime::NeedsOf(JobId(), *known->prepared, device_.spec()).levels;
    known->prepared.reset();
  }
  return known->levels;
}

absl::StatusOr<bool> Needs::Fit(int64_t jobs, int64_t batch) {
  EBB_ASSIGN_OR_RETURN(const OneJob one, Of(batch));
  if (!one.planned || one.lane > pool_) return false;  // the levels do not lower it
  if (one.region * jobs + one.lane <= pool_) return true;
  EBB_ASSIGN_OR_RETURN(const auto chosen, Chosen(jobs, batch));
  return !chosen.empty();
}

absl::StatusOr<std::vector<runtime::LevelNeed>> Needs::Chosen(int64_t jobs, int64_t batch) {
  EBB_ASSIGN_OR_RETURN(const auto levels, Levels(batch));
  const runtime::AdmissionJob job{.levels = levels};
  const std::vector<const runtime::AdmissionJob*> all(static_cast<size_t>(jobs), &job);
  const auto choice = runtime::CheapestLevels({.pool = pool_, .granule = granule_}, all);
  std::vector<runtime::LevelNeed> chosen;
  if (choice) {
    for (const int level : *choice) chosen.push_back(levels[static_cast<size_t>(level)]);
  }
  return chosen;
}

absl::StatusOr<int64_t> Needs::LargestBatch(int64_t jobs) {
  int64_t fits = 0, too_large = 1;
  while (too_large <= model::kMaxZooBatch) {
    EBB_ASSIGN_OR_RETURN(const bool fit, Fit(jobs, too_large));
    if (!fit) break;
    fits = too_large;
    too_large *= 2;
  }
  while (too_large - fits > 1) {
    const int64_t middle = fits + (too_large - fits) / 2;
    EBB_ASSIGN_OR_RETURN(const bool fit, Fit(jobs, middle));
    (fit ? fits : too_large) = middle;
  }
  return fits;
}

}  // namespace ebb::bench
