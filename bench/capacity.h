// How close to the batch of a job alone equal jobs can train together: the largest batch at which
// all of them are admitted at once, and how they run there. On a simulated device, through the
// engine. Free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/device_spec.h"
#include "base/units.h"

namespace ebb::bench {

struct CapacityOptions {
  std::string device = "sim:v100-16gb";  // "sim:" and what device::OpenSim takes
  int jobs = 2;
  std::vector<std::string> models;  // of the zoo; empty: all
  int64_t steps = 50;
};

struct CapacityRow {
  std::string name;
  int64_t solo_batch = 0;  // the largest of a job alone
  int64_t co_batch = 0;    // the largest of each of the jobs together
  double fraction = 0;     // co_batch / solo_batch
  // At co_batch, of all jobs: state that stays in the pool, and levels of the memory ladder.
  Bytes resident;
  std::string levels;
  // (M - resident) / (M - a job's alone at solo_batch), M being the pool.
  double ceiling = 0;
  double of_ceiling = 0;  // fraction / ceiling
  // At co_batch, over `steps` steps of every job, in the device's time.
  double concurrent = 0;  // share of the time in which two or more jobs executed
  double progress = 0;    // K x (time of one job alone) / (time of all)
  double turns = 0;       // the same when one step at a time is in flight: time sharing
};

struct CapacityReport {
  DeviceSpec device;
  Bytes pool;
  int jobs = 0;
  int64_t steps = 0;
  std::vector<CapacityRow> models;

  double MinFraction() const;
  double MeanFraction() const;
};

// `on_model` is called before each model is measured. InvalidArgument: the device is not simulated.
// NotFound: there is no such device or model. ResourceExhausted: the jobs fit at no batch.
absl::StatusOr<CapacityReport> MeasureCapacity(
    const CapacityOptions& options, const std::function<void(const std::string&)>& on_model);

}  // namespace ebb::bench
