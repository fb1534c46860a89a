// What the policies promise, kept by the engine on a simulated device: who gets how many steps.
#include <gtest/gtest.h>

#include <cstdlib>

#include "device/sim/sim_device.h"
#include "runtime/engine.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::CoRunMode;
using runtime::Engine;
using runtime::JobInfo;
using scheduler::Policy;

struct Row {
  double weight = 1;
  int priority = 0;
  int64_t batch = 1024;
};

// One lane. Runs until an instant of the device's clock.
std::vector<JobInfo> RunFor(Micros time, Policy policy, CoRunMode mode,
                            const std::vector<Row>& rows, Bytes memory = GiB(4)) {
  auto device = *device::OpenSim("v100-16gb", {});
  device::SimDevice* clock = device.get();
  auto engine = *Engine::Create(
      std::move(device), {.memory = memory, .max_lanes = 1, .policy = policy, .co_run = mode});
  clock->HoldClock();
  std::vector<JobId> jobs;
  for (const Row& row : rows) {
    runtime::JobSpec spec =
        MakeJob({.net = Net::kCnn, .batch = row.batch, .width = 64, .steps = 1'000'000});
    spec.model.reinit.clear();
    spec.train = {};
    spec.weight = row.weight;
    spec.priority = row.priority;
    const auto job = engine->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    jobs.push_back(*job);
  }
  clock->HoldAt(time);
  EXPECT_EQ(clock->AwaitStandstill(absl::Minutes(1)), device::SimDevice::Standstill::kHeld);
  std::vector<JobInfo> infos;
  for (const JobId job : jobs) {
    infos.push_back(*engine->Get(job));
    EXPECT_TRUE(engine->Cancel(job).ok());
  }
  clock->ReleaseClock();
  return infos;
}

double Ratio(const JobInfo& a, const JobInfo& b) {
  return static_cast<double>(a.step) / static_cast<double>(b.step);
}

TEST(Policies, FairGivesDeviceTimeByWeight) {
  const std::vector<JobInfo> turns =
      RunFor(Micros(2'000'000), Policy::kFair, CoRunMode::kNever, {{.weight = 2}, {.weight = 1}});
  EXPECT_GT(turns[0].step, 60);
  EXPECT_NEAR(Ratio(turns[0], turns[1]), 2, 0.06);
}

TEST(Policies, FairGivesDeviceTimeNotSteps) {
  const std::vector<JobInfo> infos = RunFor(Micros(3'000'000), Policy::kFair, CoRunMode::kNever,
                                            {{.batch = 4096}, {.batch = 1024}});
  const double long_step = 4096, short_step = 1024;
  EXPECT_GT(infos[0].step, 30);
  // Steps grow a little less than batches.
  EXPECT_NEAR(Ratio(infos[1], infos[0]) / (long_step / short_step), 1, 0.25);
  EXPECT_GT(Ratio(infos[1], infos[0]), 2);
}

// Two jobs whose steps overlap, but do not fit beside each other.
std::vector<JobInfo> RunTogether(Micros time, Policy policy, const std::vector<Row>& rows) {
  Bytes highest, regions;
  for (const Row& row : rows) {
    const std::vector<JobInfo> alone =
        RunFor(Micros(100'000), Policy::kFair, CoRunMode::kAlways, {row});
    highest = std::max(highest, alone[0].step_peak);
    regions += alone[0].resident;
  }
  const Bytes memory = AlignUp(regions + highest + highest / 4, MiB(2)) + MiB(2 * 2);
  return RunFor(time, policy, CoRunMode::kAlways, rows, memory);
}

TEST(Policies, EvenKeepsToWeightsAlsoWhereStepsOverlap) {
  for (const double weight : {1.0, 3.0}) {
    const std::vector<Row> rows = {{.weight = weight, .batch = 4096}, {.batch = 4096}};
    const std::vector<JobInfo> even = RunTogether(Micros(4'000'000), Policy::kEven, rows);
    EXPECT_GT(even[1].step, 20);
    EXPECT_NEAR(Ratio(even[0], even[1]), weight, 0.1 * weight);
  }
  const std::vector<JobInfo> fair = RunTogether(Micros(4'000'000), Policy::kFair,
                                                {{.weight = 3, .batch = 4096}, {.batch = 4096}});
  EXPECT_NEAR(Ratio(fair[0], fair[1]), 1, 0.1);
}

TEST(Policies, EvenGivesDeviceTimeNotStepsAlsoWhereStepsOverlap) {
  const std::vector<Row> rows = {{.batch = 4096}, {.batch = 3072}};
  const std::vector<JobInfo> even = RunTogether(Micros(4'000'000), Policy::kEven, rows);
  EXPECT_NEAR(Ratio(even[1], even[0]), 4096.0 / 3072, 0.1);
  const std::vector<JobInfo> fair = RunTogether(Micros(4'000'000), Policy::kFair, rows);
  EXPECT_NEAR(Ratio(fair[1], fair[0]), 1, 0.05);
}

TEST(Policies, PriorityHoldsBackWhoWouldBeInTheWay) {
  const std::vector<Row> rows = {{.priority = 0, .batch = 4096}, {.priority = 1, .batch = 4096}};
  const std::vector<JobInfo> infos = RunTogether(Micros(8'000'000), Policy::kPriority, rows);
  EXPECT_GT(infos[0].step, 2);
  EXPECT_NEAR(Ratio(infos[1], infos[0]), scheduler::kAgeAfter, 8);
}

TEST(Policies, FifoGivesEveryoneAStepInTurn) {
  const std::vector<JobInfo> infos = RunFor(Micros(3'000'000), Policy::kFifo, CoRunMode::kNever,
                                            {{.weight = 5, .batch = 4096}, {.batch = 1024}, {}});
  EXPECT_GT(infos[0].step, 30);
  EXPECT_LE(std::abs(infos[1].step - infos[0].step), 1);
  EXPECT_LE(std::abs(infos[2].step - infos[0].step), 1);
}

// Others get what ageing leaves them: a step after 32 of those that come first.
TEST(Policies, PriorityGivesTheRestOnlyWhatAgeingDoes) {
  const std::vector<JobInfo> infos = RunFor(Micros(4'000'000), Policy::kPriority, CoRunMode::kNever,
                                            {{.priority = 0}, {.priority = 1}});
  EXPECT_GT(infos[0].step, 2);
  EXPECT_NEAR(Ratio(infos[1], infos[0]), scheduler::kAgeAfter, 8);
}

TEST(Policies, ShortestPutsShortStepsFirst) {
  const std::vector<JobInfo> infos = RunFor(Micros(4'000'000), Policy::kShortest, CoRunMode::kNever,
                                            {{.batch = 4096}, {.batch = 512}});
  EXPECT_GT(infos[0].step, 2);
  EXPECT_NEAR(Ratio(infos[1], infos[0]), scheduler::kAgeAfter, 8);
}

}  // namespace
}  // namespace ebb::testing
