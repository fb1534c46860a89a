// The engine: owns one device, its pool, lanes, streams and threads, and trains the jobs given to
// it. Every method may be called from any thread; none blocks on the device but WaitForChange.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/ids.h"
#include "base/units.h"
#include "device/device.h"
#include "runtime/co_run.h"
#include "runtime/estimate.h"
#include "runtime/feed.h"
#include "runtime/host_budget.h"
#include "runtime/job.h"
#include "runtime/launch_report.h"
#include "scheduler/scheduler.h"

namespace ebb::runtime {

struct EngineOptions {
  Bytes memory;       // the pool
  Bytes quantum;      // memory a sub-model aims at; 0: from the pool (partitioner::QuantumFor)
  int max_lanes = 0;  // 0: as many as the device can run steps of, in pairs
  scheduler::Policy policy = scheduler::Policy::kFair;
  // Launched, unfinished sub-models a job that does not say itself: one executes, one follows it.
  int max_in_flight = 2;
  // What jobs may take of the host's memory, shared with whoever loads their files; none: no limit.
  std::optional<HostBudget> host_budget;
  CoRunMode co_run = CoRunMode::kAuto;
  // Null, or called on the engine's thread once when the device is lost to this process, before any
  // job is told. Whoever has a process to end ends it there; else all jobs fail.
  std::function<void(const absl::Status& why)> on_device_lost;
  // Null, or called on the engine's thread for every launch in the order in which it learns of
  // them. Must not call the engine.
  std::function<void(const LaunchReport&)> on_launch;
};

struct BlockReport {
  JobId job;
  int sub_model = 0;
  Bytes offset;  // from the lane's base
  Bytes bytes;
};
struct StackReport {
  JobId job;  // invalid: the end is free
  Bytes held;
  Bytes waiting;  // above held: released, but behind a launch that is not complete
  std::vector<BlockReport> blocks;
};
struct LaneReport {
  LaneId id;
  Bytes size;
  StackReport bottom;
  StackReport top;
  Bytes waiting;  // counted once
  Bytes free;
};
struct JobMemoryReport {
  JobId job;
  std::string name;
  Bytes resident;
  Bytes staging;
  Bytes step_peak;
  Bytes held;
  LaneId lane;
};
// Who holds which bytes and why, at one instant. The classes sum to pool_bytes, to the byte:
// resident, saved, transient, streamed, input, padding, staging, waiting, free.
struct MemoryReport {
  Bytes pool;
  std::map<std::string, Bytes> classes;
  std::vector<LaneReport> lanes;
  std::vector<JobMemoryReport> jobs;
  Bytes outside;  // the device's own, beside the pool: context, modules, plans, other processes
  std::map<std::string, Bytes> host;  // host memory by class: data sets, results, staging, ...
};

// How much jobs really overlapped since the start or the last reset.
struct OverlapReport {
  int64_t samples = 0;  // of the ledger: one a scheduling decision
  int64_t shared = 0;   // two jobs held blocks in one lane
  int64_t deep = 0;     // ... and together more than either's own step peak
  Micros wall;          // since the first launch, on the device's clock as the following
  Micros busy;          // at least one job's sub-model was executing
  Micros concurrent;    // sub-models of two or more jobs were executing
  // Steps of others that started in its lane while a job could have: the most of any job. Bounded
  // by scheduler::kAgeAfter + jobs of the lane - 1.
  int64_t most_overtaken = 0;
};

struct SubModelReport {
  int first = 0;
  int last = 0;
  std::string phase;
  Bytes extent;
  Bytes held_after;
  Bytes saved;
};
// One level of the memory ladder.
struct LevelReport {
  std::string name;  // "resident", "offload 25 %", "swap 63 %", ... (runtime/ladder.h)
  Bytes region;      // resident and staged in the pool
  Bytes step_peak;
  Bytes host;  // state that lives on the host
  Bytes bus;   // copied by a training step
  bool in_use = false;
};
struct ExplainReport {
  std::string graph;  // the training graph as text
  std::vector<SubModelReport> sub_models;
  std::string plan;  // strategy of the stack plan
  Bytes plan_peak;
  Bytes live_peak;
  Bytes quantum;
  std::map<std::string, Bytes>
      resident;  // parameters, optimizer state, buffers, constants, scalars, wherever they are
  std::vector<LevelReport> ladder;  // the levels that were weighed
  std::string admission;            // in words, with the byte ledger behind it
  std::string numerics_key;
  std::string next_batch;           // how it comes to the device; empty where it crosses no bus
  std::optional<Micros> solo_step;  // a training step without neighbours, where measured
  std::vector<CoRunPair> pairs;     // with the other jobs that have been admitted
  std::optional<double> crowd;      // progress of three and more jobs at once, where measured
  // The part of its launches' time in which they waited for others that they would have hindered.
  double waiting = 0;
};

struct JobResult {
  // Parameters, or their moving averages where the job keeps those, and buffers, under the model's
  // names.
  graph::TensorMap weights;
  graph::TensorMap slots;                   // optimizer state
  std::shared_ptr<const std::string> onnx;  // the file the model came from; null for a graph
  Keep keep = Keep::kLast;                  // which state this is
  std::shared_ptr<const JobResult> last;    // the state at the end beside it; else null
  // Of a job that predicts, which has nothing else: outputs of the model by name, all rows.
  graph::TensorMap predictions;
  std::shared_ptr<HostBudget::Share>
      held;  // what it takes of the host's memory, if that is counted
};

struct DeviceReport {
  DeviceSpec spec;
  Bytes pool;
  int lanes = 0;
  int streams = 0;
  std::string policy;
  CoRunMode co_run = CoRunMode::kAuto;
};

class Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::unique_ptr<device::Device> device,
                                                        const EngineOptions& options);
  // Stops at the next sub-models; jobs that are not final become kCancelled.
  virtual ~Engine() = default;

  // Takes a job. All of the spec is checked before it returns (import, shapes, data, admission): an
  // error means that there is no job. InvalidArgument, Unimplemented, ResourceExhausted (can never
  // fit: says how many bytes it needs, how many there are and the largest batch that fits),
  // Cancelled (spec.abandoned).
  virtual absl::StatusOr<JobId> Submit(JobSpec spec) = 0;

  // What Submit would say, and what the job would take, beside the jobs that are there. Data and
  // initial values may be missing.
  virtual absl::StatusOr<EstimateReport> Estimate(JobSpec spec) const = 0;

  virtual absl::StatusOr<JobInfo> Get(JobId job) const = 0;
  virtual std::vector<JobInfo> List() const = 0;
  // Metric points from number `from` on (0 = the first ever).
  virtual absl::StatusOr<std::vector<MetricPoint>> Metrics(JobId job, size_t from) const = 0;
  // Blocks until the job's version differs from `seen` or the deadline has passed; the newest info.
  virtual absl::StatusOr<JobInfo> WaitForChange(JobId job, uint64_t seen,
                                                absl::Time deadline) const = 0;

  // `note`, if not null: what follows from a change of the learning rate, where the rate is not
  // simply the one asked for from then on.
  virtual absl::Status Update(JobId job, const JobUpdate& update, std::string* note = nullptr) = 0;
  virtual absl::Status Cancel(JobId job) = 0;  // ok on a final job too: nothing happens
  // At the next step boundary; a job that has done its last step ends all the same.
  virtual absl::Status Pause(JobId job) = 0;
  virtual absl::Status Resume(JobId job) = 0;
  // Forgets a final job and frees its result.
  virtual absl::Status Forget(JobId job) = 0;

  // Where the job's client pushes its batches. FailedPrecondition: the job reads files, or no data.
  virtual absl::StatusOr<std::shared_ptr<Feed>> FeedOf(JobId job) const = 0;

  // Parameters, buffers and optimizer slots of a job that has succeeded, at its last step boundary.
  // FailedPrecondition otherwise: a cancelled or failed job stops within a step, and a device that
  // does not compute has no values.
  virtual absl::StatusOr<std::shared_ptr<const JobResult>> Result(JobId job) const = 0;

  virtual MemoryReport Memory() const = 0;
  virtual OverlapReport Overlap() const = 0;
  virtual absl::StatusOr<ExplainReport> Explain(JobId job) const = 0;
  virtual DeviceReport Describe() const = 0;
};

}  // namespace ebb::runtime
