// Whether running together pays is found out, and heeded, by the engine: on simulated devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/check/race_check.h"
#include "device/sim/sim_device.h"
#include "model/zoo/zoo.h"
#include "runtime/engine.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::CoRunMode;
using runtime::CoRunPair;
using runtime::Engine;
using runtime::JobInfo;
using runtime::JobState;
using ::testing::HasSubstr;

runtime::JobSpec ResNet50(int64_t batch, int64_t steps) { return ZooJob("resnet50", batch, steps); }

struct Training {
  device::SimDevice* device = nullptr;  // the engine's
  std::unique_ptr<Engine> engine;
  std::vector<JobId> jobs;

  // All submitted at instant 0.
  Training(const std::string& profile, CoRunMode mode, const std::vector<runtime::JobSpec>& specs,
           const std::string& constants = "{}", std::optional<Micros> hold_at = std::nullopt) {
    auto loaded = device::LoadSimProfile(profile);
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    if (constants != "{}") loaded = device::OverrideSimProfile(*loaded, constants, "the test");
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    auto opened =
        std::make_unique<device::SimDevice>(*std::move(loaded), device::OverlapModel::kSlots);
    device = opened.get();
    const Bytes memory = device->spec().memory;
    auto checked = device::CheckRaces(
        std::move(opened), {.on_fault = [](const std::string& fault) { ADD_FAILURE() << fault; }});
    engine = *Engine::Create(std::move(checked), {.memory = memory, .co_run = mode});
    device->HoldClock();
    for (const runtime::JobSpec& spec : specs) {
      const auto job = engine->Submit(spec);
      EXPECT_TRUE(job.ok()) << job.status();
      jobs.push_back(*job);
    }
    if (hold_at) {
      device->HoldAt(*hold_at);
    } else {
      device->ReleaseClock();
    }
  }
  // Until all have ended, in device time.
  double Wall() {
    for (const JobId job : jobs) {
      const JobInfo info = WaitUntilFinal(*engine, job);
      EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
    }
    return static_cast<double>(engine->Overlap().wall.count());
  }
};

// Kernels hinder each other twice as much as is assumed otherwise.
constexpr char kCrowded[] = "{interference: 0.06}";

double WallOf(const std::string& profile, CoRunMode mode, int64_t batch, int64_t steps,
              const std::string& constants = "{}") {
  return Training(profile, mode, {ResNet50(batch, steps), ResNet50(batch, steps)}, constants)
      .Wall();
}

TEST(CoRunEngine, NeverIsOneStepAtATime) {
  Training run("v100-16gb", CoRunMode::kNever, {ResNet50(8, 30), ResNet50(8, 30)});
  const double together = run.Wall();
  const double alone = Training("v100-16gb", CoRunMode::kNever, {ResNet50(8, 60)}).Wall();
  EXPECT_NEAR(together / alone, 1, 0.02);
  EXPECT_LT(run.engine->Overlap().concurrent / run.engine->Overlap().wall, 0.01);
}

TEST(CoRunEngine, SmallBatchesStayTogether) {
  const double never = WallOf("v100-16gb", CoRunMode::kNever, 8, 100);
  EXPECT_GT(never / WallOf("v100-16gb", CoRunMode::kAuto, 8, 100), 1.5);
}

TEST(CoRunEngine, APairThatLosesTakesTurns) {
  constexpr int64_t kBatch = 1500, kSteps = 240;
  const double never = WallOf("h200-141gb", CoRunMode::kNever, kBatch, kSteps, kCrowded);
  EXPECT_LT(never / WallOf("h200-141gb", CoRunMode::kAlways, kBatch, kSteps, kCrowded), 0.98);
  EXPECT_GT(never / WallOf("h200-141gb", CoRunMode::kAuto, kBatch, kSteps, kCrowded), 0.995);
}

// Full grids beside full grids lose by hindering each other, small ones gain. The pair as a whole
// is near 1 and stays together.
std::vector<runtime::JobSpec> FullGrids() {
  return {ZooJob("densenet121", 1054, 60), ZooJob("gpt2", 54, 60)};
}

TEST(CoRunEngine, SubModelsThatLoseWaitForEachOther) {
  Training always("h200-141gb", CoRunMode::kAlways, FullGrids());
  Training automatic("h200-141gb", CoRunMode::kAuto, FullGrids());
  const double gain = always.Wall() / automatic.Wall();
  EXPECT_GT(gain, 1.008);
}

TEST(CoRunEngine, TheyWaitTheSameWayEveryTime) {
  const double first = Training("h200-141gb", CoRunMode::kAuto, FullGrids()).Wall();
  EXPECT_EQ(first, Training("h200-141gb", CoRunMode::kAuto, FullGrids()).Wall());
}

// What `explain` says of the pair, at an instant of the device's clock. It is held there.
CoRunPair PairAt(Training& run, Micros at) {
  run.device->HoldAt(at);
  EXPECT_EQ(run.device->AwaitStandstill(absl::Minutes(1)), device::SimDevice::Standstill::kHeld);
  const auto report = run.engine->Explain(run.jobs[0]);
  EXPECT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->pairs.size(), 1u);
  return report->pairs.empty() ? CoRunPair() : report->pairs[0];
}

TEST(CoRunEngine, ThePairIsTriedAgainWhenAWeightChanges) {
  Training run("h200-141gb", CoRunMode::kAuto, {ResNet50(1500, 100'000), ResNet50(1500, 100'000)},
               kCrowded, Micros(500'000));
  CoRunPair pair = PairAt(run, Micros(500'000));
  EXPECT_EQ(pair.state, CoRunPair::State::kMeasuringAlone);
  EXPECT_EQ(pair.other, run.jobs[1]);
  EXPECT_FALSE(pair.measured);
  // Steps of less than half a second: eight are enough to find out.
  pair = PairAt(run, Micros(10'000'000));
  EXPECT_EQ(pair.state, CoRunPair::State::kTurns);
  EXPECT_TRUE(pair.measured);
  EXPECT_GT(pair.own + pair.others, 0.9);
  EXPECT_LT(pair.own + pair.others, 0.985);
  EXPECT_EQ(pair.tries, 1);
  EXPECT_GT(pair.retry_in, 0);
  const auto solo = run.engine->Explain(run.jobs[0])->solo_step;
  ASSERT_TRUE(solo.has_value());
  EXPECT_GT(*solo, Micros(300'000));
  EXPECT_LT(*solo, Micros(500'000));

  ASSERT_TRUE(run.engine->Update(run.jobs[1], {.weight = 2}).ok());
  pair = PairAt(run, Micros(10'500'000));
  EXPECT_EQ(pair.state, CoRunPair::State::kMeasuringTogether);
  EXPECT_EQ(pair.tries, 0);
  // Together it does better now: most sub-models have come to wait for each other.
  pair = PairAt(run, Micros(20'000'000));
  EXPECT_EQ(pair.state, CoRunPair::State::kTogether);
  EXPECT_GT(pair.own + pair.others, 0.995);
  EXPECT_GT(pair.apart, pair.known / 2);
  EXPECT_GT(run.engine->Explain(run.jobs[0])->waiting, 0.05);
  for (const JobId job : run.jobs) EXPECT_TRUE(run.engine->Cancel(job).ok());
  run.device->ReleaseClock();
}

TEST(CoRunEngine, WhoWaitsForItsTurnSaysSoWithTheFigures) {
  Training run("h200-141gb", CoRunMode::kAuto, {ResNet50(1500, 100'000), ResNet50(1500, 100'000)},
               kCrowded);
  std::string why;
  bool measured = false;
  const absl::Time deadline = absl::Now() + absl::Minutes(1);
  while (!measured && absl::Now() < deadline) {
    for (const JobId job : run.jobs) {
      why = run.engine->Get(job)->why;
      measured |= why.find("of their speed alone") != std::string::npos;
      if (measured) break;
      const uint64_t seen = run.engine->Get(job)->version;
      ASSERT_TRUE(run.engine->WaitForChange(job, seen, deadline).ok());
    }
  }
  EXPECT_THAT(why, HasSubstr("takes turns with j-"));
  EXPECT_THAT(why, HasSubstr(": together 0.9"));
  for (const JobId job : run.jobs) EXPECT_TRUE(run.engine->Cancel(job).ok());
}

}  // namespace
}  // namespace ebb::testing
