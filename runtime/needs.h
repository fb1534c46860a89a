// From a prepared job to what admission knows of it, and to the largest batch with which it fits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "device/device.h"
#include "runtime/admission.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

// `id`: invalid for a job that has not been submitted.
AdmissionJob NeedsOf(JobId id, const PreparedJob& job, const DeviceSpec& device);

// Makes the next levels of the job's memory ladder while `enough` says no of those that it has.
absl::Status DeepenUntil(PreparedJob* job, const device::Device& device, const StepOptions& options,
                         absl::FunctionRef<bool(const AdmissionJob& needs)> enough);

// Can the batch of this job's model be chosen? A serialised graph has its batch bound.
bool BatchIsFree(const JobSpec& spec);

// What a job takes with other batches than its own, whole; each is planned once. Thread rule: one
// owner.
class BatchNeeds {
 public:
  // All three must outlive it. What needs more than `memory` is not planned to the end.
  BatchNeeds(const JobSpec& spec, const device::Device& device, Bytes quantum, Bytes memory)
      : spec_(spec), device_(device), quantum_(quantum), memory_(memory) {}

  // The level of each of `copies` at which the engine admits them when nobody else is there; none:
  // they do not fit.
  std::vector<LevelNeed> Chosen(const AdmissionState& alone, int64_t batch, int copies);
  // The largest batch within [1, most] with which `copies` of the job fit at once beside those that
  // run and wait in `state`; 0: there is none, or the batch is bound.
  int64_t Largest(const AdmissionState& state, int64_t most, int copies = 1);

 private:
  const JobSpec& spec_;
  const device::Device& device_;
  const Bytes quantum_;
  const Bytes memory_;
  // With this batch; null: it cannot be prepared with it.
  PreparedJob* Of(int64_t batch);
  // What it takes, at as many levels as `fits` asks for.
  AdmissionJob Deepened(PreparedJob& job, absl::FunctionRef<bool(const AdmissionJob&)> fits);
  std::map<int64_t, std::unique_ptr<PreparedJob>> known_;
};

}  // namespace ebb::runtime
