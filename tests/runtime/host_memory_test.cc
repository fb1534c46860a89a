// What jobs take of the host's memory: counted when they come, given back when they are forgotten.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "device/sim/sim_device.h"
#include "runtime/engine.h"
#include "runtime/host_budget.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::Engine;
using runtime::HostBudget;
using runtime::JobState;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Bytes Sum(const std::map<std::string, Bytes>& classes) {
  Bytes sum;
  for (const auto& [name, bytes] : classes) sum += bytes;
  return sum;
}

TEST(HostMemory, AResultIsCountedFromTheSubmitUntilItIsForgotten) {
  const HostBudget budget(MiB(64));
  const auto engine = MakeEngine({.memory = MiB(16), .host_budget = budget});
  const auto job = engine->Submit(MakeJob({.optim = Optim::kAdam, .width = 256, .steps = 30}));
  ASSERT_TRUE(job.ok()) << job.status();
  const Bytes taken = budget.taken();
  EXPECT_GT(taken, KiB(3 * 256 * 256 * 4 / 1024));  // weights and two slots of its largest layer
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, JobState::kSucceeded);
  const auto host = engine->Memory().host;
  EXPECT_EQ(host.at("free"), budget.limit() - taken);
  EXPECT_GT(host.at("results"), Bytes(0));
  EXPECT_LE(host.at("results"), taken);
  EXPECT_EQ(Sum(host), budget.limit());
  ASSERT_TRUE(engine->Forget(*job).ok());
  EXPECT_EQ(budget.taken(), Bytes(0));
}

TEST(HostMemory, WhoFetchesAResultKeepsItsShare) {
  const HostBudget budget(MiB(64));
  const auto engine = MakeEngine({.memory = MiB(16), .host_budget = budget});
  const auto job = engine->Submit(MakeJob({}));
  WaitUntilFinal(*engine, *job);
  engine->Memory();  // by now the engine has let go of what the job held
  auto result = *engine->Result(*job);
  ASSERT_TRUE(engine->Forget(*job).ok());
  EXPECT_GT(budget.taken(), Bytes(0));
  result.reset();
  EXPECT_EQ(budget.taken(), Bytes(0));
}

TEST(HostMemory, ACancelledJobGivesItsShareBackAtOnce) {
  const HostBudget budget(MiB(64));
  const auto engine = MakeEngine({.memory = MiB(16), .host_budget = budget});
  const auto job = engine->Submit(MakeJob({.steps = 1'000'000}));
  WaitForStep(*engine, *job, 3);
  EXPECT_GT(engine->Memory().host.at("reserved for results"), Bytes(0));
  ASSERT_TRUE(engine->Cancel(*job).ok());
  while (engine->Memory().classes.at("free") != MiB(16)) {
  }
  EXPECT_EQ(engine->Memory().host.at("reserved for results"), Bytes(0));
  EXPECT_EQ(budget.taken(), Bytes(0));
}

TEST(HostMemory, AJobThatFindsNoneLeftIsRefusedInWords) {
  const HostBudget budget(KiB(900));
  const auto engine = MakeEngine({.memory = MiB(16), .host_budget = budget});
  const runtime::JobSpec spec = MakeJob({.optim = Optim::kAdam, .width = 192, .steps = 1});
  const auto first = engine->Submit(spec);
  ASSERT_TRUE(first.ok()) << first.status();
  const Bytes taken = budget.taken();
  ASSERT_GT(taken * 2, budget.limit());
  const absl::Status second = engine->Submit(spec).status();
  EXPECT_EQ(second.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("what the job stages and leaves as its result takes "));
  EXPECT_THAT(std::string(second.message()), HasSubstr("all jobs together may take 900.0 KiB"));
  EXPECT_THAT(std::string(second.message()), HasSubstr("raise ebbd --host_memory"));
  EXPECT_EQ(budget.taken(), taken);
  const auto estimate = engine->Estimate(spec);
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->host, taken);
  EXPECT_THAT(estimate->text, HasSubstr("; a submit is refused until "));

  WaitUntilFinal(*engine, *first);
  ASSERT_TRUE(engine->Forget(*first).ok());
  EXPECT_THAT(engine->Estimate(spec)->text, Not(HasSubstr("refused")));
  EXPECT_TRUE(engine->Submit(spec).ok());

  const absl::Status never =
      engine->Submit(MakeJob({.optim = Optim::kAdam, .width = 512})).status();
  EXPECT_EQ(never.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(never.message()), HasSubstr("never: needs "));
  EXPECT_THAT(std::string(never.message()),
              HasSubstr(", at most 900.0 KiB of the host's memory (ebbd --host_memory)"));
}

TEST(HostMemory, AJobThatWaitsForItSaysSo) {
  // Two of them fit with state on the host: a pool that is a little larger than one with its step.
  const runtime::JobSpec spec = ZooJob("vgg16", 32, int64_t{1} << 40);
  const auto large = MakeSimEngine(GiB(15));
  const auto report = large->Estimate(spec);
  ASSERT_TRUE(report.ok()) << report.status();
  const auto waiting = [&](Bytes host) {
    const auto engine =
        Engine::Create(*device::OpenSim("v100-16gb", {}),
                       {.memory = report->alone + MiB(256), .host_budget = HostBudget(host)});
    EXPECT_TRUE(engine.ok()) << engine.status();
    const auto first = (*engine)->Submit(spec);
    EXPECT_TRUE(first.ok()) << first.status();
    WaitForStep(**engine, *first, 1);
    return (*engine)->Estimate(spec)->text;
  };
  EXPECT_THAT(waiting(GiB(8)), StartsWith("fits now"));
  const std::string text = waiting(report->host * 3);
  EXPECT_THAT(text, StartsWith("after j-1"));
  EXPECT_THAT(text,
              HasSubstr(absl::StrCat(" of the host's memory; the ", FormatBytes(report->host * 3),
                                     " for jobs (ebbd --host_memory) hold ")));
}

TEST(HostMemory, StagedBatchesOfASimulatedDeviceCountWhereItsHostIsGivenASize) {
  const HostBudget budget(MiB(1));
  const auto engine =
      Engine::Create(*device::OpenSim("v100-16gb", {}), {.memory = GiB(1), .host_budget = budget});
  ASSERT_TRUE(engine.ok()) << engine.status();
  runtime::JobSpec spec = MakeJob({.net = Net::kCnn, .batch = 512, .steps = int64_t{1} << 40});
  spec.train = {};
  const auto job = (*engine)->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const auto host = (*engine)->Memory().host;
  EXPECT_EQ(host.at("staging"), budget.taken());
  EXPECT_EQ(host.at("free"), MiB(1) - budget.taken());
  spec.model.graph = MakeJob({.net = Net::kCnn, .batch = 2048}).model.graph;
  spec.batch_size = 2048;
  EXPECT_THAT(std::string((*engine)->Submit(spec).status().message()),
              HasSubstr("of the host's memory"));
}

}  // namespace
}  // namespace ebb::testing
