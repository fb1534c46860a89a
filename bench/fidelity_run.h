// Runs of a few jobs at once through the engine, on any device, and what was seen of them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "device/sim/sim_device.h"
#include "runtime/launch_report.h"

namespace ebb::bench {

struct FidelityOptions {
  int mixes = 10;
  uint64_t seed = 1;
  double seconds = 1;    // of a run
  int repeats = 6;       // of every run; the quieter half counts, its median
  double patience = 5;   // seconds to wait for a quiet machine before a run
  Bytes pool = MiB(64);  // of every run
};

// Bytes of one job, as planned and as held.
struct JobBytes {
  Bytes resident, staging, step_peak;  // planned
  Bytes held;                          // most at any time: its region and its step's stack
  bool operator==(const JobBytes&) const = default;
};

struct FidelityRun {
  std::vector<JobBytes> bytes;               // by job
  std::vector<Bytes> lanes;                  // their sizes while all jobs are there
  Bytes together;                            // most held by all jobs at once
  std::vector<double> step_micros;           // by job, while all train; median over windows
  std::vector<std::vector<double>> windows;  // the same in each window
  std::vector<double> busy_micros;           // by job: execution of a step's launches, median
  double launches_per_step = 0;              // of the first job
  double own = 0;                            // processors that the process used, mean
  double others = 0;   // part of the processors' time that other processes took
  Bytes Peak() const;  // regions and lanes: what the jobs take of the pool
};

// `steps[j]` steps of job `jobs[j]`; until the first of them is done. `clock`: of a simulated
// device, so that all start at one instant.
absl::StatusOr<FidelityRun> RunJobs(std::unique_ptr<device::Device> device,
                                    device::SimDevice* clock, Bytes pool,
                                    const std::vector<std::string>& jobs,
                                    const std::vector<int64_t>& steps);

// Runs on cpu, the quiet ones of them: the half that others disturbed least. Waits a while for a
// quiet machine before each.
absl::StatusOr<std::vector<FidelityRun>> RunOnCpu(const FidelityOptions& options,
                                                  const std::vector<std::string>& jobs,
                                                  const std::vector<int64_t>& steps);
// Of job `job`, median over runs.
double StepMicros(const std::vector<FidelityRun>& runs, size_t job);

double Median(std::vector<double> values);  // REQUIRES !values.empty()

}  // namespace ebb::bench
