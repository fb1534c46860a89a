#include "bench/zoo_jobs.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "model/zoo/zoo.h"
#include "partitioner/partition.h"
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
Needs::Needs(device::Device& device, Bytes pool, std::string model, graph::Precision precision)
    : device_(device),
      alone_{.pool = pool, .granule = device.granules().granule()},
      model_(std::move(model)),
      precision_(precision) {}

absl::Status Needs::Begin() {
  if (batches_) return absl::OkStatus();
  EBB_ASSIGN_OR_RETURN(spec_, ZooJob(model_, 1, 1));
  spec_.precision = precision_;
  batches_.emplace(spec_, device_, partitioner::QuantumFor(alone_.pool), alone_.pool);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Needs::LargestBatch(int jobs) {
  EBB_RETURN_IF_ERROR(Begin());
  return batches_->Largest(alone_, model::kMaxZooBatch, jobs);
}

absl::StatusOr<std::vector<runtime::LevelNeed>> Needs::Chosen(int jobs, int64_t batch) {
  EBB_RETURN_IF_ERROR(Begin());
  return batches_->Chosen(alone_, batch, jobs);
}

}  // namespace ebb::bench
