// Equal jobs trained together on one device, real or simulated, against the same jobs in turns and
// alone: samples a second, memory, and whether their results are the same bits. Free functions.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/device_spec.h"
#include "base/units.h"
#include "graph/mixed_precision.h"

namespace ebb::bench {

struct TogetherOptions {
  std::string device;
  Bytes memory;  // the pool; 0: all of the device's
  int jobs = 2;
  std::vector<std::string> models;  // of the zoo, or jobs of bench/fidelity_jobs.h
  std::optional<int64_t> batch;     // none: the largest with which all jobs fit at once
  int64_t steps = 20;               // of each job
  graph::Precision precision = graph::Precision::kFp32;
};

// One way to run them.
struct TogetherRun {
  double samples = 0;             // a second, of all jobs, while all train
  double concurrent = 0;          // share of the time in which two or more jobs executed
  Bytes held;                     // of the pool by all jobs, mean over that time
  Bytes lanes;                    // what they train in, beside what stays
  Bytes resident;                 // what stays, of all
  std::vector<std::string> bits;  // SHA-256 of each job's result; empty on a device without values
};

struct TogetherRow {
  std::string model;
  int64_t batch = 0;
  int64_t solo_batch = 0, co_batch = 0;  // the largest of one, of all at once; 0: not looked for
  TogetherRun alone;                     // one job
  TogetherRun turns;                     // one step of any job in flight at a time
  TogetherRun always;                    // all at once, whatever it costs
  TogetherRun together;                  // as the engine decides

  bool SameBits() const;  // every job of every run ended with those of the job alone
};

struct TogetherReport {
  DeviceSpec device;
  Bytes pool;
  int jobs = 0;
  int64_t steps = 0;
  graph::Precision precision = graph::Precision::kFp32;
  std::vector<TogetherRow> models;
};

// `on_run` is told of each run before it begins. InvalidArgument and NotFound blame the options;
// ResourceExhausted: the jobs do not fit; Internal: one failed, or they did not all train at one
// time.
absl::StatusOr<TogetherReport> MeasureTogether(
    const TogetherOptions& options, const std::function<void(const std::string&)>& on_run);

std::string TogetherTable(const TogetherReport& report);
std::string TogetherJson(const TogetherReport& report);

}  // namespace ebb::bench
