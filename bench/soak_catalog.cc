#include <algorithm>

#include "base/status.h"
#include "bench/soak_mix.h"
#include "bench/zoo_jobs.h"
#include "device/sim/roofline.h"
#include "model/zoo/zoo.h"
#include "partitioner/partition.h"
#include "runtime/prepare.h"

namespace ebb::bench {
namespace {

absl::StatusOr<std::unique_ptr<runtime::PreparedJob>> Sizes(const device::SimDevice& device,
                                                            const std::string& model,
                                                            int64_t batch) {
  EBB_ASSIGN_OR_RETURN(runtime::JobSpec spec, ZooJob(model, batch, 1));
  return runtime::Prepare(std::move(spec), device,
                          {.quantum = partitioner::QuantumFor(device.spec().memory),
                           .purpose = runtime::Purpose::kSizes});
}

}  // namespace

absl::StatusOr<std::unique_ptr<SoakCatalog>> SoakCatalog::Create(const std::string& device) {
  auto catalog = std::make_unique<SoakCatalog>();
  EBB_ASSIGN_OR_RETURN(catalog->device_, OpenSimulated(device));
  for (const model::ZooEntry& entry : model::Zoo()) catalog->models_.emplace_back(entry.name);
  return catalog;
}

Bytes SoakCatalog::Pool(double fraction) const {
  const Bytes granule = device_->spec().granule;
  const auto bytes = static_cast<double>(device_->spec().memory.count()) * fraction;
  return granule * (static_cast<int64_t>(bytes) / granule.count());
}

absl::StatusOr<int64_t> SoakCatalog::LargestBatch(const std::string& model, Bytes pool) {
  const auto key = std::make_pair(model, pool);
  if (const auto it = largest_.find(key); it != largest_.end()) return it->second;
  Needs needs(*device_, pool, model);
  EBB_ASSIGN_OR_RETURN(const int64_t batch, needs.LargestBatch(1));
  return largest_[key] = batch;
}

absl::StatusOr<double> SoakCatalog::StepMicros(const std::string& model, int64_t batch) {
  if (!speeds_.contains(model)) {
    const device::SimProfile& profile = device_->profile();
    double micros[2] = {};
    const int64_t batches[2] = {1, 33};
    for (int i = 0; i < 2; ++i) {
      EBB_ASSIGN_OR_RETURN(const auto job, Sizes(*device_, model, batches[i]));
      const graph::Graph& graph = job->programs()[0]->graph;
      for (const graph::Node& node : graph.nodes) {
        const double alone = device::CostAlone(profile, graph, node).micros;
        if (alone > 0) micros[i] += std::max(alone, profile.launch_us);
      }
    }
    const double each = (micros[1] - micros[0]) / static_cast<double>(batches[1] - batches[0]);
    speeds_[model] = {micros[0] - each, each};
  }
  const Speed& speed = speeds_[model];
  return speed.fixed + speed.each * static_cast<double>(batch);
}

absl::StatusOr<std::shared_ptr<const data::DataSet>> SoakCatalog::Data(const std::string& model) {
  if (const auto it = data_.find(model); it != data_.end()) return it->second;
  EBB_ASSIGN_OR_RETURN(const auto job, Sizes(*device_, model, 1));
  const runtime::StepProgram& step = *job->programs()[0];
  std::map<std::string, graph::HostTensor> fields;
  for (const ValueId input : step.inputs) {
    const graph::Value& value = step.graph.value(input);
    fields.emplace(value.name, graph::HostTensor::Zeros(value.type));
  }
  EBB_ASSIGN_OR_RETURN(data_[model], data::DataSet::Create(std::move(fields)));
  return data_[model];
}

}  // namespace ebb::bench
