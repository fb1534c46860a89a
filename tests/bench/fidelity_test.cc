// Jobs on cpu and on a simulated device that is like it: the same bytes. Times are not looked at.
#include "bench/fidelity.h"

#include "bench/fidelity_jobs.h"
#include "bench/machine_load.h"
#include "bench/node_timer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ebb::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Bytes kPool = MiB(64);

absl::StatusOr<std::unique_ptr<device::Device>> Open(const std::string& name) {
  return device::OpenDevice(name, {});
}

// Like cpu, with every kernel of the same time.
std::unique_ptr<device::SimDevice> LikeCpu() {
  const auto v100 = device::LoadSimProfile("v100-16gb");
  const auto cpu = Open("cpu");
  EXPECT_TRUE(v100.ok() && cpu.ok());
  device::SimProfile profile = *v100;
  profile.like = "cpu";
  profile.granule_kib = static_cast<double>((*cpu)->spec().granule.count()) / 1024;
  profile.alignment_bytes = static_cast<double>((*cpu)->spec().alignment.count());
  profile.steps_at_once = (*cpu)->spec().parallelism;
  auto sim = device::MakeSim(profile, device::OverlapModel::kSlots, Open);
  EXPECT_TRUE(sim.ok()) << sim.status();
  return *std::move(sim);
}

FidelityRun OnCpu(const std::vector<std::string>& jobs) {
  auto run = RunJobs(*Open("cpu"), nullptr, kPool, jobs, std::vector<int64_t>(jobs.size(), 30));
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

FidelityRun OnSim(const std::vector<std::string>& jobs) {
  auto sim = LikeCpu();
  device::SimDevice* const clock = sim.get();
  auto run = RunJobs(std::move(sim), clock, kPool, jobs, std::vector<int64_t>(jobs.size(), 30));
  EXPECT_TRUE(run.ok()) << run.status();
  return *std::move(run);
}

class EqualBytes : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(EqualBytes, OnTheRealDeviceAndTheSimulatedOne) {
  const FidelityRun real = OnCpu(GetParam()), sim = OnSim(GetParam());
  ASSERT_EQ(real.bytes.size(), GetParam().size());
  for (size_t j = 0; j < real.bytes.size(); ++j) {
    EXPECT_EQ(real.bytes[j], sim.bytes[j]) << GetParam()[j];
    EXPECT_GT(real.bytes[j].step_peak, Bytes(0));
    EXPECT_GT(real.bytes[j].staging, Bytes(0));  // batches wait in the pool on both
    EXPECT_GT(real.bytes[j].held, real.bytes[j].resident + real.bytes[j].step_peak);
  }
  EXPECT_EQ(real.lanes, sim.lanes);
  EXPECT_EQ(real.Peak(), sim.Peak());
  EXPECT_LE(real.Peak(), kPool);
  EXPECT_LE(real.together, real.Peak() + kPool / 100);  // and granules
}

INSTANTIATE_TEST_SUITE_P(
    Mixes, EqualBytes,
    ::testing::Values(std::vector<std::string>{"mlp-adam"}, std::vector<std::string>{"cnn-16"},
                      std::vector<std::string>{"cnn-adam", "encoder-192"},
                      std::vector<std::string>{"mlp-512", "cnn-32", "encoder-128"}));

TEST(FidelityJobs, AllCanBeMadeAndAWrongNameListsThem) {
  for (const std::string& name : FidelityJobs()) {
    const auto spec = FidelityJob(name, 3);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->stop.steps, 3);
  }
  EXPECT_THAT(std::string(FidelityJob("mlp", 3).status().message()), HasSubstr("mlp-512"));
}

TEST(NodeTimer, TellsEveryNodeOfEveryStep) {
  const auto times = std::make_shared<std::vector<std::unique_ptr<NodeTimes>>>();
  const auto run =
      RunJobs(std::make_unique<NodeTimer>(*Open("cpu"), times), nullptr, kPool, {"cnn-16"}, {20});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_THAT(*times, Not(IsEmpty()));
  const NodeTimes& step = *times->front();
  ASSERT_EQ(step.kernels.size(), step.micros.size());
  for (size_t n = 0; n < step.kernels.size(); ++n) {
    EXPECT_EQ(step.micros[n].size(), 20u) << step.kernels[n];
  }
}

TEST(MachineLoad, IsThePartThatOthersTook) {
  const MachineTimes before{.busy = 10, .total = 100, .own = 1};
  EXPECT_DOUBLE_EQ(TakenByOthers(before, {.busy = 16, .total = 110, .own = 3}), 0.4);
  EXPECT_DOUBLE_EQ(TakenByOthers(before, {.busy = 11, .total = 110, .own = 3}), 0);
  EXPECT_DOUBLE_EQ(TakenByOthers(before, before), 0);
}

TEST(FidelityMix, ErrorsAreOfTheRealFigures) {
  FidelityMix mix{.jobs = {"a", "b"}};
  mix.real.step_micros = {100, 200};
  mix.sim.step_micros = {90, 230};
  mix.progress_real = 1.6;
  mix.progress_sim = 1.2;
  EXPECT_NEAR(mix.StepError(), 0.15, 1e-9);
  EXPECT_NEAR(mix.ProgressError(), 0.25, 1e-9);
  EXPECT_TRUE(mix.BytesExact());
  mix.sim.bytes.push_back({.held = Bytes(1)});
  EXPECT_FALSE(mix.BytesExact());
}

}  // namespace
}  // namespace ebb::bench
