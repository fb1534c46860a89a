// From a prepared job to what admission knows of it, and to the largest batch with which it fits.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "device/device.h"
#include "runtime/admission.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

// `id`: invalid for a job that has not been submitted.
AdmissionJob NeedsOf(JobId id, const PreparedJob& job, const DeviceSpec& device);

// Can the batch of this job's model be chosen? A serialised graph has its batch bound.
bool BatchIsFree(const JobSpec& spec);

// What a job takes with other batches than its own, whole; each is planned once. Thread rule: one
// owner.
class BatchNeeds {
 public:
  // All three must outlive it. What needs more than `memory` is not planned to the end.
  BatchNeeds(const JobSpec& spec, const device::Device& device, Bytes quantum, Bytes memory)
      : spec_(spec), device_(device), quantum_(quantum), memory_(memory) {}

  // With all state resident at first. Null: the job cannot be prepared with this batch.
  const AdmissionJob* Of(int64_t batch);
  // With more levels of the memory ladder; null: there are no more. REQUIRES Of(batch) != null.
  const AdmissionJob* Deeper(int64_t batch);
  // The largest batch within [1, most] with which `copies` of the job fit at once beside those that
  // run and wait in `state`; 0: there is none, or the batch is bound.
  int64_t Largest(const AdmissionState& state, int64_t most, int copies = 1);

 private:
  const JobSpec& spec_;
  const device::Device& device_;
  const Bytes quantum_;
  const Bytes memory_;
  struct Known {
    std::optional<AdmissionJob> needs;
    std::unique_ptr<PreparedJob> prepared;
  };
  std::map<int64_t, Known> known_;
};

}  // namespace ebb::runtime
