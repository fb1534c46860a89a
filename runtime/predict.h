// How long a job's training step takes alone, where the device has a model of time. Thread-safe.
#pragma once

#include <optional>

#include "base/device_spec.h"
#include "base/units.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

// Enqueues steps as the engine would, with all of `pool` for the job, on a simulated device of the
// same profile, whose clock says it. nullopt: the device is real, or the job is too large to be
// planned.
std::optional<Micros> PredictStep(const PreparedJob& job, const DeviceSpec& device, Bytes pool,
                                  int max_in_flight);

}  // namespace ebb::runtime
