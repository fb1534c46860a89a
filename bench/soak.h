// Random mixes of jobs through the engine on a simulated device: arrivals, live changes, pauses,
// cancels in the midst of a step and failing launches, at instants of virtual time, with every
// access checked for races. Free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/device_spec.h"
#include "bench/soak_mix.h"
#include "device/device.h"

namespace ebb::bench {

struct SoakOptions {
  std::string device = "sim:v100-16gb";  // "sim:" and what device::OpenSim takes
  int64_t mixes = 500;
  uint64_t seed = 1;
  std::optional<int64_t> only;  // this mix of them alone
  // For tests: the device that the engine gets, made of the one that is checked.
  std::function<std::unique_ptr<device::Device>(std::unique_ptr<device::Device>)> between;
};

// What went wrong, of any kind; no mix should show any.
struct SoakFaults {
  int64_t deadlocks = 0;      // nothing moves, but a job is neither final nor paused
  int64_t aborts = 0;         // a job ended otherwise than it was made to, or too early
  int64_t starved = 0;        // a job waited beyond the scheduler's bound
  int64_t ledger_errors = 0;  // the ledger did not sum, or something was not given back
  int64_t races = 0;          // accesses that nothing orders
  int64_t Sum() const { return deadlocks + aborts + starved + ledger_errors + races; }
};

// What the mixes did, so that it can be seen that they did something.
struct SoakCounts {
  int64_t jobs = 0;
  int64_t steps = 0;       // complete optimizer steps
  int64_t evaluating = 0;  // jobs that evaluate
  int64_t queued = 0;      // jobs seen waiting to be admitted
  int64_t updates = 0;     // of weight, priority or stop, while the job lived
  int64_t pauses = 0;      // likewise
  int64_t cancels = 0;     // likewise
  int64_t cancels_in_step = 0;
  int64_t failures = 0;        // launches that failed
  int64_t looks = 0;           // at the ledger
  int64_t overlapping = 0;     // mixes in which two jobs held memory of one lane
  int64_t deep = 0;            // mixes in which these were together larger than either's step
  int64_t most_overtaken = 0;  // see runtime::OverlapReport
  double device_seconds = 0;   // virtual
};

struct SoakOutcome {
  SoakFaults faults;
  SoakCounts counts;
  std::vector<std::string> log;     // what was done when, in virtual time
  std::vector<std::string> faulty;  // the faults in words
};

struct SoakReport {
  DeviceSpec device;
  uint64_t seed = 0;
  int64_t mixes = 0;
  SoakFaults faults;
  SoakCounts counts;
};

// `on_mix` is called with each mix before it runs and `on_end` after it. InvalidArgument: the
// device is not simulated.
absl::StatusOr<SoakReport> Soak(const SoakOptions& options,
                                const std::function<void(int64_t number)>& on_mix,
                                const std::function<void(int64_t number, const SoakMix& mix,
                                                         const SoakOutcome& outcome)>& on_end);

absl::StatusOr<SoakOutcome> RunSoakMix(const SoakOptions& options, const SoakMix& mix);

}  // namespace ebb::bench
