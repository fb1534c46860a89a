// Jobs that train models of the zoo without data, what they need of a simulated device's memory,
// and the largest batches at which they fit. Thread rule: one owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/sim/sim_device.h"
#include "runtime/admission.h"
#include "runtime/job.h"
#include "runtime/prepare.h"

namespace ebb::bench {

// `name`: "sim:" and what device::OpenSim takes. InvalidArgument: it is not simulated.
absl::StatusOr<std::unique_ptr<device::SimDevice>> OpenSimulated(const std::string& name);

// Without recompute, which would raise the batch of a job alone as much as that of several.
// NotFound: there is no such model.
absl::StatusOr<runtime::JobSpec> ZooJob(const std::string& model, int64_t batch, int64_t steps);

// The device's memory, in whole granules.
Bytes PoolOf(device::SimDevice& device);

// What a step's forward nodes leave behind for backward: what is cut into sub-models.
absl::StatusOr<Bytes> SavedBytes(device::SimDevice& device, const std::string& model,
                                 int64_t batch);

// What jobs of one model need, by batch. Plans them as the engine does, and remembers.
class Needs {
 public:
  // In all of the device's memory, or in a pool of less.
  Needs(device::SimDevice& device, std::string model);
  Needs(device::SimDevice& device, Bytes pool, std::string model);

  struct OneJob {
    bool planned = false;  // else its step alone is larger than the pool
    Bytes region;          // state and staging, in granules, with all state resident
    Bytes lane;            // its step's peak, in granules
  };
  absl::StatusOr<OneJob> Of(int64_t batch);
  // The inequality by which the engine admits the last of `jobs` while the others train, at any
  // level of the memory ladder.
  absl::StatusOr<bool> Fit(int64_t jobs, int64_t batch);
  // The largest batch at which `jobs` fit, found by bisection below the doubled batch at which they
  // no longer do; 0: none.
  absl::StatusOr<int64_t> LargestBatch(int64_t jobs);

  // The level of each job at which the engine admits them; none if they do not fit.
  absl::StatusOr<std::vector<runtime::LevelNeed>> Chosen(int64_t jobs, int64_t batch);
  // The levels of a job, the resident one first.
  absl::StatusOr<std::vector<runtime::LevelNeed>> Levels(int64_t batch);

 private:
  struct Known {
    OneJob one;
    std::unique_ptr<runtime::PreparedJob> prepared;  // until all levels have been made
    std::vector<runtime::LevelNeed> levels;
  };
  absl::StatusOr<Known*> Look(int64_t batch);

  const device::SimDevice& device_;
  const Bytes granule_;
  const Bytes pool_;
  const std::string model_;
  std::map<int64_t, Known> known_;
};

}  // namespace ebb::bench
