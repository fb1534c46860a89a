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

// `job` itself where it fits `alone` (a pool without jobs) at any level of its memory ladder, which
// is made as far as that takes, or says itself how it trains; else prepared anew for the least
// number of 2, 4, 8, ... 64 parts with which it does; itself with the reason, in
// job->micro_batches, where there is none. Data may be missing.
absl::StatusOr<std::unique_ptr<PreparedJob>> InMicroBatches(std::unique_ptr<PreparedJob> job,
                                                            const AdmissionState& alone,
                                                            const device::Device& device,
                                                            const PrepareOptions& options);

}  // namespace ebb::runtime
