// How well a simulated device predicts a real one: calibrated on jobs that train alone on cpu, it
// is compared with cpu while jobs train together. Free functions and plain data.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/fidelity_run.h"
#include "device/sim/profile.h"

namespace ebb::bench {

// Of one job alone.
struct SoloFigures {
  std::string name;
  double step_micros = 0, busy_micros = 0;  // on the real device
  double sim_micros = 0;                    // predicted: what calibration did not get right
  double launches = 0;                      // a step
  double host = 0;    // processor time of all but its kernels, as part of the time
  double others = 0;  // part of the processors' time that other processes took
};

struct FidelityMix {
  std::vector<std::string> jobs;
  FidelityRun real, sim;       // step_micros of `real`: the median of the repeats
  std::vector<double> spread;  // by job: (largest - smallest) / median of the repeats
  double progress_real = 0, progress_sim = 0;
  bool BytesExact() const;
  double StepError() const;  // the largest of any job, as part of the real one
  double ProgressError() const;
};

struct FidelityReport {
  FidelityOptions options;
  DeviceSpec device;  // the real one
  device::SimProfile profile;
  double self_slowdown = 0;  // of the calibration pair
  std::vector<SoloFigures> solo;
  std::vector<FidelityMix> mixes;
  double MaxStepError() const;
  double MaxProgressError() const;
  bool BytesExact() const;
};

absl::StatusOr<FidelityReport> MeasureFidelity(const FidelityOptions& options,
                                               const std::function<void(const std::string&)>& on);

}  // namespace ebb::bench
