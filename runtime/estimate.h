// What a job would take and when it could start, without it being submitted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/device_spec.h"
#include "device/device.h"
#include "runtime/admission.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

struct EstimateReport {
  DeviceSpec device;
  Verdict verdict;   // beside the jobs that are there
  std::string text;  // the verdict in words, with the bytes behind it
  int64_t batch_size = 0;
  Bytes pool;
  Bytes resident;
  Bytes staging;    // in the pool, with the next batch where the job would be alone there
  Bytes step_peak;  // planned, of training and evaluation
  Bytes live_peak;  // of the training step
  Bytes host;       // of the host's memory
  // By itself, at its cheapest level on a pool without others, whatever level these force.
  Bytes alone;         // what it takes of the pool
  Bytes two;           // what two equal jobs take of it
  int64_t copies = 0;  // equal jobs that fit at once
  // 0: none fits. Absent where the model binds its batch. Without micro-batches.
  std::optional<int64_t> largest_alone, largest_beside_equal, largest_now;
  std::optional<Micros> step_time;  // alone; where the device has a model of time
};

struct EstimateOptions {
  Bytes quantum;
  int max_in_flight = 2;
};

// Data and initial values may be missing. Errors are those of a submit.
absl::StatusOr<EstimateReport> EstimateJob(JobSpec spec, const AdmissionState& present,
                                           const device::Device& device,
                                           const EstimateOptions& options);

// For `batch_size: auto`: the largest batch with which the job fits beside those that are there,
// else alone, at most the rows of its training data, rounded (batch_search.h). 1 when none fits.
absl::StatusOr<int64_t> AutoBatch(const JobSpec& spec, const AdmissionState& present,
                                  const device::Device& device, Bytes quantum);

// OK, or the refusal of a job that never fits: ResourceExhausted.
absl::Status CheckFits(const PreparedJob& job, const AdmissionState& alone,
                       const device::Device& device, Bytes quantum);

// As many granules as the memory holds, and nobody in them.
AdmissionState EmptyPool(Bytes memory, Bytes granule);

}  // namespace ebb::runtime
