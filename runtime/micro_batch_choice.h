// Whether a job that does not say so trains in micro-batches. Their number changes the order of
// sums and so the bits, so it follows from the job and the whole pool alone, never from who else is
// there.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/device.h"
#include "runtime/admission.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

// 1 where the job fits `alone` (a pool without jobs) at any level of the memory ladder; else the
// least number of 2, 4, 8, ... 64 with which it does; 1 with the reason where there is none.
// Data may be missing. REQUIRES a job that Prepare accepts, spec.ladder.micro_batches = 0.
MicroBatchChoice ChooseMicroBatches(const JobSpec& spec, const AdmissionState& alone,
                                    const device::Device& device, Bytes quantum);

// `job` itself, with job->micro_batches set where it does not fit; prepared anew where it leaves
// the number open and needs some.
absl::StatusOr<std::unique_ptr<PreparedJob>> InMicroBatches(std::unique_ptr<PreparedJob> job,
                                                            const AdmissionState& alone,
                                                            const device::Device& device,
                                                            const PrepareOptions& options);

}  // namespace ebb::runtime
