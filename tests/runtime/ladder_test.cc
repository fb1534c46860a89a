// The memory ladder: which levels are chosen, and that training at any of them, and changing
// between them, gives the bits of a run with all state resident.
#include "runtime/ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "device/forwarding_device.h"
#include "device/sim/sim_device.h"
#include "runtime/admission.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::AdmissionJob;
using runtime::CheapestLevels;
using runtime::Engine;
using runtime::JobState;
using runtime::LevelNeed;
using ::testing::ElementsAre;

LevelNeed Level(int64_t region, int64_t lane, int64_t copied) {
  return {.region = Bytes(region), .lane = Bytes(lane), .copied = Bytes(copied)};
}

std::optional<std::vector<int>> Choose(int64_t pool,
                                       const std::vector<std::vector<LevelNeed>>& levels) {
  std::vector<AdmissionJob> jobs;
  for (const auto& each : levels) jobs.push_back({.levels = each});
  std::vector<const AdmissionJob*> all;
  for (const AdmissionJob& job : jobs) all.push_back(&job);
  return CheapestLevels({.pool = Bytes(pool), .granule = Bytes(1)}, all);
}

TEST(CheapestLevels, StayResidentWhileEverythingFits) {
  const std::vector<LevelNeed> job = {Level(10, 50, 0), Level(5, 50, 5)};
  EXPECT_THAT(*Choose(70, {job, job}), ElementsAre(0, 0));
}

TEST(CheapestLevels, TheCheapestChangeThatIsEnoughIsTaken) {
  const std::vector<LevelNeed> dear = {Level(10, 50, 0), Level(2, 50, 100)};
  const std::vector<LevelNeed> cheap = {Level(10, 50, 0), Level(5, 50, 5), Level(1, 50, 20)};
  EXPECT_THAT(*Choose(66, {dear, cheap}), ElementsAre(0, 1));
  EXPECT_THAT(*Choose(62, {dear, cheap}), ElementsAre(0, 2));
  EXPECT_THAT(*Choose(53, {dear, cheap}), ElementsAre(1, 2));
  EXPECT_FALSE(Choose(52, {dear, cheap}).has_value());
}

TEST(CheapestLevels, FindALevelThatPaysOnlyWhenAllTakeIt) {
  // It raises the lane by more than one region gives back.
  const std::vector<LevelNeed> job = {Level(10, 50, 0), Level(4, 60, 5)};
  EXPECT_THAT(*Choose(72, {job, job, job}), ElementsAre(1, 1, 1));
  EXPECT_FALSE(Choose(71, {job, job, job}).has_value());
}

TEST(CheapestLevels, NobodyNeedsNothing) { EXPECT_TRUE(Choose(0, {})->empty()); }

std::string LevelOf(const Engine& engine, JobId job) {
  const auto report = engine.Explain(job);
  if (!report.ok()) return "ended";
  for (const runtime::LevelReport& level : report->ladder) {
    if (level.in_use) return level.name;
  }
  return "waiting";
}

// The pool that `jobs` equal jobs need with all state resident.
Bytes ResidentNeed(const JobOptions& options, int jobs) {
  const auto engine = MakeEngine({.memory = MiB(64)});
  const auto job = engine->Submit(MakeJob(options));
  EXPECT_TRUE(job.ok()) << job.status();
  const runtime::JobInfo info = *engine->Get(*job);
  return (info.resident + info.staging) * jobs + info.step_peak;
}

TEST(Ladder, StateOnTheHostGivesTheBitsOfARunWithItOnTheDevice) {
  const JobOptions common = {.batch = 32, .layers = 6, .steps = 30, .seed = 5, .validate = true};
  std::vector<JobOptions> subjects = FourKinds(common, 192, 48);
  // Updates at the step's end, and averages that evaluation reads.
  subjects[1].also = [](runtime::JobSpec* spec) {
    spec->clip.norm = 0.5;
    spec->ema_decay = 0.9;
  };
  for (const JobOptions& subject : subjects) {
    const std::string solo = SoloFingerprint(subject);
    // Less than two of them need: at least one level is climbed.
    const Bytes both = ResidentNeed(subject, 2), one = ResidentNeed(subject, 1);
    int streamed = 0;
    for (const double part : {0.3, 0.6, 0.9}) {
      const Bytes memory = one + Bytes(static_cast<int64_t>(part * (both - one).count()));
      SCOPED_TRACE(FormatBytes(memory));
      const auto engine = MakeCheckedEngine({.memory = memory, .quantum = KiB(64)});
      const auto a = engine->Submit(MakeJob(subject));
      const auto b = engine->Submit(MakeJob(subject));
      ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
      WaitForStep(*engine, *b, 3);
      streamed += engine->Memory().host.at("streamed state") > Bytes(0);
      for (const JobId job : {*a, *b}) {
        const runtime::JobInfo info = WaitUntilFinal(*engine, job);
        EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
        EXPECT_EQ(Fingerprint(*engine, job), solo);
      }
      EXPECT_EQ(engine->Memory().classes.at("free"), engine->Memory().pool);
      EXPECT_EQ(engine->Memory().host.at("streamed state"), Bytes(0));
    }
    EXPECT_GT(streamed, 0);
  }
}

TEST(Ladder, AJobClimbsWhenAnotherComesAndGoesBackWhenItLeaves) {
  const JobOptions subject = {
      .optim = Optim::kAdam, .batch = 32, .width = 256, .layers = 6, .steps = 400, .seed = 5};
  const std::string solo = SoloFingerprint(subject);
  const Bytes memory =
      ResidentNeed(subject, 1) + (ResidentNeed(subject, 2) - ResidentNeed(subject, 1)) / 2;
  const auto engine = MakeCheckedEngine({.memory = memory, .quantum = KiB(64)});
  const auto job = engine->Submit(MakeJob(subject));
  ASSERT_TRUE(job.ok()) << job.status();
  WaitForStep(*engine, *job, 5);
  EXPECT_EQ(LevelOf(*engine, *job), "resident");
  JobOptions other = subject;
  other.steps = 1'000'000;
  other.seed = 6;
  const auto neighbour = engine->Submit(MakeJob(other));
  ASSERT_TRUE(neighbour.ok()) << neighbour.status();
  WaitForStep(*engine, *neighbour, 3);
  EXPECT_TRUE(LevelOf(*engine, *job) != "resident" || LevelOf(*engine, *neighbour) != "resident");
  EXPECT_GT(engine->Memory().host.at("streamed state"), Bytes(0));
  ASSERT_TRUE(engine->Cancel(*neighbour).ok());
  const runtime::JobInfo now = *engine->Get(*job);
  WaitForStep(*engine, *job, now.step + 5);
  EXPECT_EQ(LevelOf(*engine, *job), "resident");
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, JobState::kSucceeded);
  EXPECT_EQ(Fingerprint(*engine, *job), solo);
}

TEST(Ladder, AStepTooLargeForThePoolMakesTensorsAgain) {
  // Its activations dwarf its state.
  const JobOptions subject = {.net = Net::kCnn, .batch = 400, .width = 16, .steps = 12, .seed = 5};
  const std::string solo = SoloFingerprint(subject);
  const Bytes one = ResidentNeed(subject, 1);
  const Bytes memory = one - one / 25;
  JobOptions without = subject;
  without.ladder = false;
  const auto engine = MakeCheckedEngine({.memory = memory, .quantum = KiB(64)});
  EXPECT_EQ(engine->Submit(MakeJob(without)).status().code(), absl::StatusCode::kResourceExhausted);
  const auto job = engine->Submit(MakeJob(subject));
  ASSERT_TRUE(job.ok()) << job.status();
  WaitForStep(*engine, *job, 2);
  EXPECT_THAT(LevelOf(*engine, *job), ::testing::StartsWith("recompute"));
  EXPECT_EQ(WaitUntilFinal(*engine, *job).state, JobState::kSucceeded);
  EXPECT_EQ(Fingerprint(*engine, *job), solo);
}

// Its `nth` launch fails, which the next event of that stream says, and no other.
class FailsOneLaunch : public device::ForwardingDevice {
 public:
  FailsOneLaunch(std::unique_ptr<device::Device> inner, int nth)
      : ForwardingDevice(std::move(inner)), left_(nth) {}
  void Launch(device::StreamId stream, const device::LaunchArgs& args) override {
    if (--left_ == 0) failing_ = stream;
    ForwardingDevice::Launch(stream, args);
  }
  device::EventId Record(device::StreamId stream) override {
    const device::EventId event = ForwardingDevice::Record(stream);
    if (stream == failing_) failed_ = event;
    if (stream == failing_) failing_ = device::StreamId();
    return event;
  }
  void Copy(device::StreamId stream, void* to, const void* from, Bytes bytes) override {
    ++copies_;
    ForwardingDevice::Copy(stream, to, from, bytes);
  }
  int copies() const { return copies_; }
  device::EventState Query(device::EventId event) const override {
    device::EventState state = ForwardingDevice::Query(event);
    if (event == failed_) state.status = absl::InternalError("it was made to fail");
    return state;
  }

 private:
  int left_;
  std::atomic<int> copies_ = 0;
  device::StreamId failing_;
  device::EventId failed_;
};

// For a device that computes nothing.
runtime::JobSpec FourBareSteps() {
  runtime::JobSpec spec =
      MakeJob({.optim = Optim::kAdam, .batch = 32, .width = 256, .layers = 6, .steps = 4});
  spec.model.reinit.clear();
  spec.train = {};
  return spec;
}

TEST(Ladder, ALaunchTellsOfItsKernelsAlsoWhereCopiesFollowThem) {
  const auto last_launches = [](Bytes memory, bool streams) {
    Micros busy;
    const auto engine = *Engine::Create(
        *device::OpenDevice("sim:v100-16gb", {}),
        {.memory = memory, .quantum = KiB(64), .on_launch = [&](const auto& launch) {
           if (launch.last) busy += launch.end - launch.start;
         }});
    const auto job = engine->Submit(FourBareSteps());
    EXPECT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(WaitUntilFinal(*engine, *job).streamed > Bytes(0), streams);
    return busy;
  };
  const Micros resident = last_launches(MiB(64), false);
  EXPECT_GT(resident, Micros(0));
  EXPECT_GE(last_launches(MiB(4), true), resident);
}

TEST(Ladder, EveryFailureOfALaunchThatCopiesStateEndsItsJob) {
  const runtime::JobSpec spec = FourBareSteps();
  for (int nth = 1; nth <= 40; ++nth) {
    auto sim = *device::OpenSim("v100-16gb", {});
    device::SimDevice* const clock = sim.get();
    auto device = std::make_unique<FailsOneLaunch>(std::move(sim), nth);
    const FailsOneLaunch& counts = *device;
    const auto engine =
        *Engine::Create(std::move(device), {.memory = MiB(6), .quantum = KiB(64), .max_lanes = 1});
    clock->HoldClock();  // until both are there, so that they share the pool from the start
    const auto a = engine->Submit(spec);
    const auto b = engine->Submit(spec);
    ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
    clock->ReleaseClock();
    int failed = 0;
    for (const JobId job : {*a, *b}) {
      const runtime::JobInfo info = WaitUntilFinal(*engine, job);
      failed += info.state == JobState::kFailed && info.reason == runtime::EndReason::kDevice;
    }
    EXPECT_EQ(failed, 1) << nth;
    EXPECT_GT(counts.copies(), 32) << nth;  // inputs and metrics alone are at most 32
  }
}

TEST(Ladder, LevelsThatTheSpecExcludesAreNotTaken) {
  const JobOptions subject = {
      .optim = Optim::kAdam, .batch = 32, .width = 256, .layers = 6, .steps = 400, .seed = 5};
  const Bytes memory =
      ResidentNeed(subject, 1) + (ResidentNeed(subject, 2) - ResidentNeed(subject, 1)) / 2;
  const auto engine = MakeEngine({.memory = memory, .quantum = KiB(64)});
  JobOptions without = subject;
  without.ladder = false;
  const runtime::JobSpec spec = MakeJob(without);
  const auto first = engine->Submit(spec);
  const auto second = engine->Submit(spec);
  ASSERT_TRUE(first.ok() && second.ok());
  WaitForStep(*engine, *first, 3);
  EXPECT_EQ(engine->Get(*second)->state, JobState::kQueued);
  EXPECT_EQ(engine->Explain(*first)->ladder.size(), 1u);
  EXPECT_EQ(engine->Memory().host.at("streamed state"), Bytes(0));
}

}  // namespace
}  // namespace ebb::testing
