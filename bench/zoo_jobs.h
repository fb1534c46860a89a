// Jobs that train models of the zoo without data, what they need of a simulated device's memory,
// and the largest batches at which they fit. Thread rule: one owner thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/sim/sim_device.h"
#include "runtime/admission.h"
#include "runtime/job.h"
#include "runtime/needs.h"

namespace ebb::bench {

// `name`: "sim:" and what device::OpenSim takes. InvalidArgument: it is not simulated.
absl::StatusOr<std::unique_ptr<device::SimDevice>> OpenSimulated(const std::string& name);

// Without recompute, which would raise the batch of a job alone as much as that of several.
// NotFound: there is no such model.
absl::StatusOr<runtime::JobSpec> ZooJob(const std::string& model, int64_t batch, int64_t steps);

// The device's memory, in whole granules.
Bytes PoolOf(device::SimDevice& device);

// What a step's forward nodes leave behind for backward: what is cut into sub-models.
absl::StatusOr<Bytes> SavedBytes(device::SimDevice& device, const std::string& model,
                                 int64_t batch);

// At which batches jobs of one model fit on a device, simulated or not, planned as the engine does
// and remembered.
class Needs {
 public:
  // In all of the device's memory, or in a pool of less.
  Needs(device::SimDevice& device, std::string model);
  Needs(device::Device& device, Bytes pool, std::string model,
        graph::Precision precision = graph::Precision::kFp32);

  // The largest batch at which `jobs` fit at once, at any levels of the memory ladder; 0: none.
  // NotFound: there is no such model.
  absl::StatusOr<int64_t> LargestBatch(int jobs);
  // The level of each job at which the engine admits them; none if they do not fit.
  absl::StatusOr<std::vector<runtime::LevelNeed>> Chosen(int jobs, int64_t batch);

 private:
  absl::Status Begin();  // makes batches_

  device::Device& device_;
  const runtime::AdmissionState alone_;
  const std::string model_;
  const graph::Precision precision_;
  runtime::JobSpec spec_;
  std::optional<runtime::BatchNeeds> batches_;
};

}  // namespace ebb::bench
