// In steady state a step takes no device memory, and from the heap no more than 4 KiB at once, but
// for what the allow-list below names (docs/runtime.md).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "device/device.h"
#include "tests/testing/heap_watch.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

constexpr size_t kLimit = 4096;

// Measured: 73984 bytes for every product of these jobs (oneDNN 2.6.3, AVX-512).
constexpr size_t kLargestGemmBuffer = 256 << 10;
// Of one thread in one product: its own, and one that the threads share.
constexpr int kGemmBuffers = 2;

// The allow-list: what oneDNN's sgemm packs its operands into. On an OpenMP thread of its own the
// calls end at the runtime, so on one thread a stream the list is strict.
bool IsGemmBuffer(const AllocationSite& site) {
  bool on_openmp = false;
  for (int f = 0; f < site.depth; ++f) {
    void* at = site.frames[static_cast<size_t>(f)];
    const std::string module = ModuleOf(at);
    if (absl::StartsWith(module, "libdnnl.so")) continue;
    if (f == 0) return false;
    if (absl::StartsWith(module, "libgomp.so")) {
      on_openmp = true;
      continue;
    }
    return absl::StartsWith(FunctionOf(at), "ebb::device::cpu::Sgemm(") ||
           (on_openmp && absl::StartsWith(module, "libc.so"));
  }
  return false;
}

// Three jobs on one lane, watched over epochs and evaluations.
class SteadyState : public ::testing::TestWithParam<int> {
 protected:
  static constexpr int64_t kBatch = 32, kRows = 1500, kValRows = 600;  // orders above 4 KiB each
  static constexpr int64_t kEpoch = kRows / kBatch;
  static constexpr int64_t kEvaluation = (kValRows + kBatch - 1) / kBatch;

  void SetUp() override {
    if (WhyNoHeapWatch() != nullptr) GTEST_SKIP() << WhyNoHeapWatch();
    auto device = device::OpenDevice("cpu", {.threads_per_stream = GetParam()});
    ASSERT_TRUE(device.ok()) << device.status();
    auto engine = runtime::Engine::Create(*std::move(device), {.memory = MiB(16), .max_lanes = 1});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
  }
  JobId Submit(JobOptions options) {
    options.batch = kBatch;
    options.optim = Optim::kAdam;
    options.steps = 1000000;
    options.validate = true;
    runtime::JobSpec spec = MakeJob(options);
    const auto draw = options.net == Net::kMlp ? Clusters : Images;
    spec.train.data = draw(kRows, 3);
    spec.val->data = draw(kValRows, 4);
    const auto job = engine_->Submit(std::move(spec));
    EXPECT_TRUE(job.ok()) << job.status();
    return job.value_or(JobId());
  }
  void WaitUntilAdmitted(JobId job) const {
    runtime::JobInfo info = *engine_->Get(job);
    while (!info.lane.valid()) {
      info = *engine_->WaitForChange(job, info.version, absl::InfiniteFuture());
    }
  }
  int64_t StepOf(JobId job) const { return engine_->Get(job)->step; }
  int64_t ProductsOf(JobId job) const {
    const std::string graph = engine_->Explain(job)->graph;
    return static_cast<int64_t>(
               std::vector<std::string>(absl::StrSplit(graph, " = Gemm(")).size()) -
           1;
  }
  std::vector<Bytes> LaneSizes() const {
    std::vector<Bytes> sizes;
    for (const auto& lane : engine_->Memory().lanes) sizes.push_back(lane.size);
    return sizes;
  }

  std::unique_ptr<runtime::Engine> engine_;
};

TEST_P(SteadyState, StepsTakeNothingLargeButGemmBuffers) {
  const std::vector<JobId> jobs = {
      Submit({.net = Net::kMlp, .width = 96}), Submit({.net = Net::kCnn, .width = 12}),
      Submit({.net = Net::kMlp, .width = 16, .layers = 60}),  // address tables above 4 KiB
  };
  const JobId late = jobs.back();  // its first steps are watched too
  ASSERT_TRUE(engine_->Pause(late).ok());
  for (const JobId job : jobs) WaitUntilAdmitted(job);
  for (const JobId job : {jobs[0], jobs[1]}) WaitForStep(*engine_, job, StepOf(job) + 5);
  int64_t products = 0;
  std::vector<int64_t> before;
  for (const JobId job : jobs) {
    products = std::max(products, ProductsOf(job));
    before.push_back(StepOf(job));
  }
  const std::vector<Bytes> lanes = LaneSizes();

  StartHeapWatch(kLimit);
  ASSERT_TRUE(engine_->Resume(late).ok());
  for (size_t j = 0; j < jobs.size(); ++j) {
    WaitForStep(*engine_, jobs[j], before[j] + 2 * kEpoch);
  }
  const HeapUse use = StopHeapWatch();

  int64_t steps = 0;
  for (size_t j = 0; j < jobs.size(); ++j) {
    ASSERT_FALSE(runtime::IsFinal(engine_->Get(jobs[j])->state));
    const int64_t after = StepOf(jobs[j]);
    steps += after - before[j] + 2;  // and those that were in flight
    steps += (after / kEpoch - before[j] / kEpoch + 1) * kEvaluation;
  }
  EXPECT_GT(engine_->Overlap().shared, 0) << "they did not train together";
  EXPECT_EQ(use.map_calls, 0);
  EXPECT_EQ(LaneSizes(), lanes);

  int64_t buffers = 0;
  size_t largest = 0;
  for (const AllocationSite& site : use.sites) {
    EXPECT_TRUE(IsGemmBuffer(site)) << Describe(site);
    buffers += site.count;
    largest = std::max(largest, site.largest);
  }
  EXPECT_EQ(use.untracked, 0);
  EXPECT_LE(largest, kLargestGemmBuffer);
  const int at_once = kGemmBuffers * GetParam();  // in one product
  EXPECT_LE(buffers, at_once * products * steps);
  constexpr int kStreams = 2;
  EXPECT_LE(use.peak, static_cast<int64_t>(largest) * at_once * kStreams);
  RecordProperty("steps", std::to_string(steps));
  RecordProperty("gemm_buffers", std::to_string(buffers));
  RecordProperty("gemm_peak_bytes", std::to_string(use.peak));
}

INSTANTIATE_TEST_SUITE_P(ThreadsAStream, SteadyState, ::testing::Values(1, 2));

}  // namespace
}  // namespace ebb::testing
