// The engine on the CUDA device's double: faults end as docs/cuda.md says, memory is what
// was asked for and is taken once, and steps wait for nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "tests/device/cuda_double/open_double.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using Fault = DoubleApi::Fault;
using runtime::EndReason;
using runtime::JobState;
using ::testing::HasSubstr;

struct EngineOnDouble {
  std::shared_ptr<DoubleApi> api;
  std::unique_ptr<runtime::Engine> engine;
};

EngineOnDouble Open(runtime::EngineOptions options, const CudaDoubleOptions& cuda = {}) {
  CudaDouble opened = OpenCudaDouble(cuda);
  auto engine = runtime::Engine::Create(std::move(opened.device), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return {opened.api, *std::move(engine)};
}

JobId Submit(runtime::Engine& engine, const JobOptions& options) {
  const auto job = engine.Submit(MakeJob(options));
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

std::string Solo(const JobOptions& options, const CudaDoubleOptions& cuda = {}) {
  const EngineOnDouble opened = Open({.memory = MiB(64)}, cuda);
  const JobId job = Submit(*opened.engine, options);
  EXPECT_EQ(WaitUntilFinal(*opened.engine, job).state, JobState::kSucceeded);
  return Fingerprint(*opened.engine, job);
}

TEST(CudaDoubleEngine, GraphsChangeNoBit) {
  for (const Net net : {Net::kMlp, Net::kCnn}) {
    const JobOptions options{.net = net, .optim = Optim::kAdam, .width = 16, .steps = 12};
    EXPECT_EQ(Solo(options), Solo(options, {.graphs = false}));
  }
}

TEST(CudaDoubleEngine, ALaunchThatIsRefusedEndsItsJobAndTheOtherDoesNotNotice) {
  const JobOptions lasting{.net = Net::kCnn, .width = 12, .steps = 30, .seed = 5};
  const std::string solo = Solo(lasting);
  const EngineOnDouble opened = Open({.memory = MiB(64)});
  const JobId doomed = Submit(*opened.engine, {.width = 64, .steps = 1000000});
  WaitForStep(*opened.engine, doomed, 2);
  // Its graph is refused, and then a kernel of what is launched in its place.
  opened.api->FailAt(Fault::kLaunch, 1);
  opened.api->FailAt(Fault::kLaunchGraph, 1);
  const runtime::JobInfo ended = WaitUntilFinal(*opened.engine, doomed);
  EXPECT_EQ(ended.state, JobState::kFailed);
  EXPECT_EQ(ended.reason, EndReason::kDevice);
  const JobId job = Submit(*opened.engine, lasting);
  EXPECT_EQ(WaitUntilFinal(*opened.engine, job).state, JobState::kSucceeded);
  EXPECT_EQ(Fingerprint(*opened.engine, job), solo);
}

TEST(CudaDoubleEngine, OneOfTwoFailsAndTheOtherHasItsBits) {
  const JobOptions lasting{.net = Net::kMlp, .width = 48, .steps = 60, .seed = 5};
  const std::string solo = Solo(lasting);
  const EngineOnDouble opened = Open({.memory = MiB(64)}, {.graphs = false});
  const JobId job = Submit(*opened.engine, lasting);
  WaitForStep(*opened.engine, job, 3);
  const JobId other = Submit(*opened.engine, {.width = 64, .steps = 1000000, .seed = 2});
  WaitForStep(*opened.engine, other, 3);
  opened.api->FailAt(Fault::kLaunch, 1);
  // Whose launch it was is not ours to say: the one that fails says so, the other has its bits.
  runtime::JobInfo info = WaitUntilFinal(*opened.engine, job);
  if (info.state == JobState::kSucceeded) {
    EXPECT_EQ(Fingerprint(*opened.engine, job), solo);
    EXPECT_EQ(WaitUntilFinal(*opened.engine, other).state, JobState::kFailed);
    info = WaitUntilFinal(*opened.engine, other);
  } else {
    WaitForStep(*opened.engine, other, opened.engine->Get(other)->step + 3);
    EXPECT_TRUE(opened.engine->Cancel(other).ok());
  }
  EXPECT_EQ(info.reason, EndReason::kDevice);
  EXPECT_THAT(info.message, HasSubstr("node '"));
}

class CudaDoubleLost : public ::testing::TestWithParam<Fault> {};

TEST_P(CudaDoubleLost, ALostGpuEndsAllAndIsToldBeforeAnyJobIs) {
  std::atomic<int> told = 0, ended_before = 0;
  runtime::Engine* engine = nullptr;
  runtime::EngineOptions options{.memory = MiB(64)};
  std::vector<JobId> jobs;
  options.on_device_lost = [&](const absl::Status& why) {
    EXPECT_EQ(why.code(), absl::StatusCode::kDataLoss);
    for (const JobId job : jobs) ended_before += runtime::IsFinal(engine->Get(job)->state);
    ++told;
  };
  const EngineOnDouble opened = Open(options);
  engine = opened.engine.get();
  jobs.push_back(Submit(*engine, {.width = 32, .steps = 1000000}));
  jobs.push_back(Submit(*engine, {.net = Net::kCnn, .width = 8, .steps = 1000000, .seed = 2}));
  for (const JobId job : jobs) WaitForStep(*engine, job, 3);
  opened.api->FailAt(GetParam(), 20);
  for (const JobId job : jobs) {
    const runtime::JobInfo info = WaitUntilFinal(*engine, job);
    EXPECT_EQ(info.state, JobState::kFailed);
    EXPECT_EQ(info.reason, EndReason::kDevice);
    EXPECT_THAT(info.message, HasSubstr("the device is lost"));
  }
  EXPECT_EQ(told, 1);
  EXPECT_EQ(ended_before, 0);
  const auto late = engine->Submit(MakeJob({.steps = 1}));
  EXPECT_EQ(late.status().code(), absl::StatusCode::kUnavailable);
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaDoubleLost,
                         ::testing::Values(Fault::kStickyCall, Fault::kStickyWork));

TEST(CudaDoubleEngine, TheBudgetMakesALargeCardASmallOneAndIsTakenOnce) {
  const EngineOnDouble opened = Open({.memory = MiB(48)}, {.api = {.memory = GiB(8)}});
  const Bytes taken = opened.api->taken();
  EXPECT_GE(taken, MiB(48));
  EXPECT_LT(taken, MiB(49));  // and a little for the device itself
  for (int64_t seed = 1; seed < 4; ++seed) {
    const JobId job = Submit(*opened.engine, {.width = 32, .steps = 5, .seed = uint64_t(seed)});
    EXPECT_EQ(WaitUntilFinal(*opened.engine, job).state, JobState::kSucceeded);
  }
  EXPECT_EQ(opened.api->taken(), taken);
}

TEST(CudaDoubleEngine, MemoryThatOthersHoldIsNotPromised) {
  const DoubleOptions card{.memory = MiB(256), .own = MiB(16), .foreign = MiB(128)};
  CudaDouble opened = OpenCudaDouble({.api = card});
  EXPECT_LE(opened.device->spec().memory, MiB(112));
  EXPECT_EQ(opened.device->Outside(), MiB(144));
  const auto engine = runtime::Engine::Create(std::move(opened.device), {.memory = MiB(200)});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
  // Beside a pool, too, which is not counted with it.
  EXPECT_EQ(Open({.memory = MiB(64)}, {.api = card}).engine->Memory().outside, MiB(144));
}

TEST(CudaDoubleEngine, MemoryThatIsGoneWhenThePoolIsTakenIsToldAtTheStart) {
  CudaDouble opened = OpenCudaDouble();
  opened.api->FailAt(Fault::kMap, 1);
  const auto engine = runtime::Engine::Create(std::move(opened.device), {.memory = MiB(64)});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(engine.status().message()), HasSubstr("GPU memory"));
}

TEST(CudaDoubleEngine, HostMemoryThatIsGoneRefusesTheJob) {
  const EngineOnDouble opened = Open({.memory = MiB(64)});
  opened.api->FailAt(Fault::kHostMemory, 1);
  const auto job = opened.engine->Submit(MakeJob({.steps = 1}));
  EXPECT_EQ(job.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(WaitUntilFinal(*opened.engine, Submit(*opened.engine, {.steps = 1})).state,
            JobState::kSucceeded);
}

TEST(CudaDoubleEngine, StepsTakeNothingAndWaitForNothing) {
  const EngineOnDouble opened = Open({.memory = MiB(64)});
  const JobId a = Submit(*opened.engine, {.width = 32, .steps = 1000000});
  const JobId b =
      Submit(*opened.engine, {.net = Net::kCnn, .width = 8, .steps = 1000000, .seed = 2});
  // Ends of a lane change, so that it takes a while until all launches have their graphs.
  for (const JobId job : {a, b}) WaitForStep(*opened.engine, job, 60);
  const DoubleApi::Calls before = opened.api->calls();
  for (const JobId job : {a, b}) {
    WaitForStep(*opened.engine, job, opened.engine->Get(job)->step + 40);
  }
  const DoubleApi::Calls after = opened.api->calls();
  EXPECT_EQ(after.synchronous, before.synchronous);
  EXPECT_EQ(after.allocations, before.allocations);
  EXPECT_GT(after.graph_launches, before.graph_launches + 80);
  for (const JobId job : {a, b}) EXPECT_TRUE(opened.engine->Cancel(job).ok());
}

}  // namespace
}  // namespace ebb::testing
