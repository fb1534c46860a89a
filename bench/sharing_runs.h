// One mix of jobs under one way of sharing a simulated device: how far each job comes. Thread rule:
// one owner thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/baselines/workload.h"
#include "bench/zoo_jobs.h"
#include "device/sim/sim_device.h"
#include "runtime/co_run.h"
#include "runtime/engine.h"

namespace ebb::bench {

// What the baselines assume, beyond the device's constants.
struct SharingAssumptions {
  double host_gap = 0.1;       // of a job's own step, between two steps
  double paging_of_bus = 0.5;  // bandwidth that page faults reach
  int launch_queue = 1024;     // kernels that a stream takes ahead
};

// The ways to share, by the names of their rows.
const std::vector<std::string>& SharingPolicies();

struct MixJob {
  std::string model;
  int64_t batch = 0;
};

struct MixResult {
  std::string infeasible;        // why the mix cannot run so; then the rest is empty
  std::vector<double> progress;  // by job: rate / rate alone, in samples at full batch
  int64_t dropped_steps = 0;     // to break dead-locks
  double pool_use = 0;           // mean part of the pool held
  double busy = 0;               // part of the time in which a job executed
  double concurrent = 0;         // ... two jobs executed
  double least_steps = 0;        // of a job within the window
  double Sum() const;
  double Worst() const;  // the least progress x jobs
};

// Plans and times jobs on one device's constants, and remembers.
class SharingBench {
 public:
  // `steps`: of the longest job of a mix within the window that is measured, under time sharing.
  SharingBench(device::SimProfile profile, SharingAssumptions assumptions, int64_t steps);

  const device::SimProfile& profile() const { return profile_; }
  Bytes pool() const { return pool_; }
  absl::StatusOr<int64_t> SoloBatch(const std::string& model);
  // Of a step alone, one after the other with the next batch copied meanwhile.
  absl::StatusOr<const Workload*> Work(const MixJob& job);
  // The engine's rate with the job alone over that of Work().
  absl::StatusOr<double> EngineAlone(const MixJob& job);
  absl::StatusOr<MixResult> Run(const std::string& policy, device::OverlapModel overlap,
                                const std::vector<MixJob>& mix);

 private:
  absl::StatusOr<MixResult> RunEbb(runtime::EngineOptions options, device::OverlapModel overlap,
                                   const std::vector<MixJob>& mix,
                                   const std::vector<const Workload*>& works);
  // All batches made smaller by one factor, so that the jobs fit beside each other; empty: never.
  absl::StatusOr<std::vector<const Workload*>> Shrink(const std::vector<MixJob>& mix,
                                                      const std::vector<const Workload*>& works);
  double Horizon(const std::vector<const Workload*>& works) const;

  const device::SimProfile profile_;
  const SharingAssumptions assumptions_;
  const int64_t steps_;
  device::SimDevice device_;  // only ever asked, never run on
  const Bytes pool_;
  std::map<std::string, Needs> needs_;
  std::map<std::pair<std::string, int64_t>, std::unique_ptr<Workload>> works_;
};

}  // namespace ebb::bench
