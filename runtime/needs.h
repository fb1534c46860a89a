// From a prepared job to what admission knows of it, and to the largest batch with which it fits.
// Thread-safe: free functions.
#pragma once

#include <cstdint>
#include <functional>

#include "device/device.h"
#include "runtime/admission.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

// `id`: invalid for a job that has not been submitted.
AdmissionJob NeedsOf(JobId id, const PreparedJob& job);

// Can the batch of this job's model be chosen? A serialised graph has its batch bound.
bool BatchIsFree(const JobSpec& spec);

// The largest batch within [1, most] with which the job fits at once beside those that run and wait
// in `state`; 0: there is none, or the batch is bound.
int64_t LargestBatchBeside(const JobSpec& spec, const AdmissionState& state,
                           const device::Device& device, Bytes quantum, int64_t most);

}  // namespace ebb::runtime
