// Small real jobs for tests of the engine: graphs from text, data drawn from a fixed seed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/units.h"
#include "runtime/engine.h"
#include "runtime/job.h"

namespace ebb::testing {

// Rows of 64 features around one of ten class centres; fields "x" f32[n,64] and "label" i64[n].
std::shared_ptr<const data::DataSet> Clusters(int rows, uint64_t seed);
// The same rows as images: "x" is f32[n,1,8,8].
std::shared_ptr<const data::DataSet> Images(int rows, uint64_t seed);

enum class Net { kMlp, kCnn };
enum class Optim { kSgd, kAdam };

struct JobOptions {
  Net net = Net::kMlp;
  Optim optim = Optim::kSgd;
  int64_t batch = 32;
  int64_t width = 128;
  int layers = 3;  // of the multi-layer perceptron
  int64_t steps = 20;
  uint64_t seed = 1;
  double lr = 0;  // 0: a rate that trains
  bool validate = false;
  bool ladder = true;                                     // else all state stays resident
  std::function<void(runtime::JobSpec*)> also = nullptr;  // what else it asks for
};
runtime::JobSpec MakeJob(const JobOptions& options);
// The perceptron and the convolutional network, each with SGD and with Adam; else as `common`.
std::vector<JobOptions> FourKinds(JobOptions common, int64_t mlp_width, int64_t cnn_width);
// No level of the memory ladder but the first.
inline runtime::LadderSpec AllResident() {
  return {.offload = false, .stream = false, .swap = false, .recompute = false, .micro_batches = 1};
}
// A model of the zoo as measurements train it, without weights and data.
runtime::JobSpec ZooJob(const std::string& model, int64_t batch, int64_t steps);

// An engine on the cpu device (or where EBB_TEST_DEVICE says).
std::unique_ptr<runtime::Engine> MakeEngine(runtime::EngineOptions options);
// The same, held against races (device/check/race_check.h) and with poison in bytes that nobody
// needs any more: a race fails the test, and so do results that depend on such bytes.
std::unique_ptr<runtime::Engine> MakeCheckedEngine(runtime::EngineOptions options);

// An engine on a simulated V100, whose clock runs.
std::unique_ptr<runtime::Engine> MakeSimEngine(Bytes memory);

// Waits until the job is final (at most two minutes); the test fails otherwise.
runtime::JobInfo WaitUntilFinal(const runtime::Engine& engine, JobId job);
// Waits until it has done `step` steps or is final.
runtime::JobInfo WaitForStep(const runtime::Engine& engine, JobId job, int64_t step);

// All bits that training produced: parameters, statistics, slots and the sequence of losses.
std::string Fingerprint(const runtime::Engine& engine, JobId job);
// Of the job when it has trained alone, with memory to spare.
std::string SoloFingerprint(const JobOptions& options);

}  // namespace ebb::testing
