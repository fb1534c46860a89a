// What happens in one random mix of a soak: which jobs, when they arrive, and what is done to them.
// Drawn from a seed before anything runs, so that a mix can be run again. Catalog: one owner
// thread; DrawSoakMix is pure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "data/dataset.h"
#include "device/sim/sim_device.h"
#include "scheduler/scheduler.h"

namespace ebb::bench {

// Random numbers that are the same with every library.
class Draw {
 public:
  Draw(uint64_t seed, int64_t mix);
  int64_t Below(int64_t n);  // in [0, n)
  double Uniform();          // in [0, 1)
  bool Chance(double p) { return Uniform() < p; }

 private:
  std::mt19937_64 words_;
};

// What is known of the zoo's models on a device: found once, used by every mix.
class SoakCatalog {
 public:
  static absl::StatusOr<std::unique_ptr<SoakCatalog>> Create(const std::string& device);

  const device::SimDevice& device() const { return *device_; }
  const std::vector<std::string>& models() const { return models_; }
  Bytes Pool(double fraction) const;  // of the device's memory, in granules
  // Of a job alone in a pool; 0: none.
  absl::StatusOr<int64_t> LargestBatch(const std::string& model, Bytes pool);
  // Of one step, roughly: when to act, not how long it takes.
  absl::StatusOr<double> StepMicros(const std::string& model, int64_t batch);
  // One row of zeros, which a job may select again and again.
  absl::StatusOr<std::shared_ptr<const data::DataSet>> Data(const std::string& model);

 private:
  struct Speed {
    double fixed = 0, each = 0;  // microseconds of a step, and more of it a sample
  };
  std::unique_ptr<device::SimDevice> device_;
  std::vector<std::string> models_;
  std::map<std::pair<std::string, Bytes>, int64_t> largest_;
  std::map<std::string, Speed> speeds_;
  std::map<std::string, std::shared_ptr<const data::DataSet>> data_;
};

struct SoakJob {
  std::string model;
  int64_t batch = 0;
  int64_t steps = 0;
  double weight = 1;
  int priority = 0;
  std::shared_ptr<const data::DataSet> data;  // null: it neither has epochs nor evaluates
  int64_t evaluate_every = 1;                 // steps
  std::optional<int64_t> fails_at;            // the launch, from 0, that the device fails
};

struct SoakAction {
  enum class Kind { kSubmit, kWeight, kPriority, kStop, kPause, kResume, kCancel, kLook };
  Micros at;
  Kind kind = Kind::kLook;
  int job = 0;
  int64_t value = 0;  // kWeight: eighths; kPriority; kStop: steps
};
const char* Name(SoakAction::Kind kind);

struct SoakMix {
  Bytes memory;
  scheduler::Policy policy = scheduler::Policy::kFair;
  int max_in_flight = 2;
  int max_lanes = 0;
  Bytes quantum;  // 0: the engine's own
  std::vector<SoakJob> jobs;
  std::vector<SoakAction> actions;  // in order of time
  Micros span;                      // of all steps, one after the other, roughly
};
std::string ToText(const SoakMix& mix);

absl::StatusOr<SoakMix> DrawSoakMix(uint64_t seed, int64_t number, SoakCatalog& catalog);

}  // namespace ebb::bench
