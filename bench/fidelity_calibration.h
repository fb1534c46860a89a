// Makes the profile of a simulated device that is like cpu, from jobs that train alone there. Free
// functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/fidelity.h"
#include "device/sim/sim_device.h"

namespace ebb::bench {

struct Calibration {
  device::SimProfile profile;
  double self_slowdown = 0;  // of two copies of the calibration pair's job beside each other
  std::vector<SoloFigures> solo;
};

// Each of the jobs alone: as it is, for its step, and with its nodes one by one, for the kernels'
// parts of it. Then one pair, two copies of one job, for what kernels cost each other.
absl::StatusOr<Calibration> Calibrate(const FidelityOptions& options,
                                      const std::function<void(const std::string&)>& on);

absl::StatusOr<std::unique_ptr<device::SimDevice>> OpenCalibrated(
    const device::SimProfile& profile);

}  // namespace ebb::bench
