// The engine on devices that do not compute, or whose memory is not the host's; every access to a
// simulated one is checked for races.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <utility>

#include "device/check/race_check.h"
#include "device/forwarding_device.h"
#include "device/sim/sim_device.h"
#include "partitioner/partition.h"
#include "runtime/engine.h"
#include "runtime/predict.h"
#include "runtime/prepare.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using device::SimDevice;
using runtime::Engine;
using runtime::JobInfo;
using runtime::JobState;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

struct SimEngine {
  SimDevice* device = nullptr;  // the engine's
  std::unique_ptr<Engine> engine;
};
SimEngine MakeSim(const std::string& name, runtime::EngineOptions options) {
  auto device = device::OpenSim(name, {});
  EXPECT_TRUE(device.ok()) << device.status();
  SimEngine sim{.device = device->get()};
  auto checked = device::CheckRaces(
      *std::move(device), {.on_fault = [](const std::string& fault) { ADD_FAILURE() << fault; }});
  auto engine = Engine::Create(std::move(checked), options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  sim.engine = *std::move(engine);
  return sim;
}
// Nothing but a graph and a number of steps.
runtime::JobSpec BareJob(const JobOptions& options) {
  runtime::JobSpec spec = MakeJob(options);
  spec.model.reinit.clear();
  spec.train = {};
  return spec;
}

TEST(SimEngine, RunsAJobWithoutWeightsAndDataAndInventsNothing) {
  const SimEngine sim = MakeSim("v100-16gb", {.memory = GiB(1)});
  const auto job = sim.engine->Submit(BareJob({.net = Net::kCnn, .steps = 25}));
  ASSERT_TRUE(job.ok()) << job.status();
  const JobInfo info = WaitUntilFinal(*sim.engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
  EXPECT_EQ(info.step, 25);
  EXPECT_EQ(info.total_epochs, 0);
  EXPECT_GT(info.elapsed, Micros(25) * 200);  // at least the host's work of every step
  EXPECT_LE(info.device_start + info.elapsed, sim.device->Now());
  EXPECT_TRUE(info.last.empty());
  EXPECT_TRUE(sim.engine->Metrics(*job, 0)->empty());
  const absl::Status result = sim.engine->Result(*job).status();
  EXPECT_EQ(result.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.message()), HasSubstr("computes no values"));
  EXPECT_EQ(sim.engine->Memory().classes.at("free"), GiB(1));
}

TEST(SimEngine, DataThatIsGivenIsCheckedAndGivesEpochs) {
  const SimEngine sim = MakeSim("v100-16gb", {.memory = GiB(1)});
  runtime::JobSpec spec = MakeJob({.batch = 50, .steps = 25, .validate = true});
  const auto job = sim.engine->Submit(spec);
  ASSERT_TRUE(job.ok()) << job.status();
  const JobInfo info = WaitUntilFinal(*sim.engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
  EXPECT_DOUBLE_EQ(info.epoch, 2.5);
  EXPECT_TRUE(sim.engine->Metrics(*job, 0)->empty());

  std::map<std::string, graph::HostTensor> fields = spec.train.data->fields();
  fields["label"].as<int64_t>()[123] = 10;
  spec.train.data = *data::DataSet::Create(fields);
  const absl::Status status = sim.engine->Submit(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("123"));
}

TEST(SimEngine, AJobWithoutDataStopsAfterSteps) {
  const SimEngine sim = MakeSim("v100-16gb", {.memory = GiB(1)});
  const auto refused = [&](const std::function<void(runtime::JobSpec&)>& change) {
    runtime::JobSpec spec = BareJob({});
    change(spec);
    const absl::Status status = sim.engine->Submit(spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](auto& spec) { spec.stop = {.epochs = 1}; }), HasSubstr("give steps"));
  EXPECT_THAT(refused([](auto& spec) { spec.stop = {.samples = 100}; }), HasSubstr("give steps"));
  EXPECT_THAT(refused([](auto& spec) { spec.stop.epochs = 1; }), HasSubstr("no epochs"));
  EXPECT_THAT(refused([](auto& spec) { spec.val = MakeJob({}).train; }), HasSubstr("data.val"));
  EXPECT_THAT(refused([](auto& spec) {
                spec.model.reinit = {{"nobody", "ones"}};
              }),
              HasSubstr("nobody"));
  EXPECT_THAT(refused([](auto& spec) { spec.bind["y"] = "z"; }), HasSubstr("no input 'y'"));

  const auto job = sim.engine->Submit(BareJob({.steps = int64_t{1} << 40}));
  ASSERT_TRUE(job.ok()) << job.status();
  WaitForStep(*sim.engine, *job, 5);
  EXPECT_THAT(
      std::string(sim.engine->Update(*job, {.stop = runtime::StopSpec{.epochs = 2}}).message()),
      HasSubstr("no epochs"));
  EXPECT_TRUE(sim.engine->Update(*job, {.stop = runtime::StopSpec{.steps = 10}}).ok());
  EXPECT_EQ(WaitUntilFinal(*sim.engine, *job).state, JobState::kSucceeded);

  const auto cpu = MakeEngine({.memory = MiB(16)});
  EXPECT_THAT(std::string(cpu->Submit(BareJob({})).status().message()),
              HasSubstr("data.train is missing"));
}

TEST(SimEngine, AJobThatIsBeingSavedCannotBeProlonged) {
  const SimEngine sim = MakeSim("v100-16gb", {.memory = GiB(1)});
  sim.device->HoldClock();
  const auto job = sim.engine->Submit(BareJob({.net = Net::kCnn, .width = 64, .steps = 3}));
  ASSERT_TRUE(job.ok()) << job.status();
  JobInfo info = *sim.engine->Get(*job);
  while (info.step < 3) {
    sim.device->HoldAt(sim.device->Now() + Micros(1));
    sim.device->AwaitStandstill(absl::InfiniteDuration());
    info = *sim.engine->Get(*job);
  }
  ASSERT_EQ(info.state, JobState::kRunning);
  const absl::Status status =
      sim.engine->Update(*job, {.weight = 3, .stop = runtime::StopSpec{.steps = 9}});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("has done its last step"));
  EXPECT_TRUE(sim.engine->Update(*job, {.weight = 2}).ok());
  sim.device->ReleaseClock();
  info = WaitUntilFinal(*sim.engine, *job);
  EXPECT_EQ(info.state, JobState::kSucceeded);
  EXPECT_EQ(info.step, 3);
  EXPECT_EQ(info.total_steps, 3);
}

TEST(SimEngine, TheSameSubmissionsUnderAHeldClockTakeTheSameTimes) {
  for (const char* name : {"v100-16gb", "v100-16gb+vector"}) {
    std::vector<std::vector<int64_t>> runs;
    for (int run = 0; run < 2; ++run) {
      const SimEngine sim = MakeSim(name, {.memory = MiB(96)});
      sim.device->HoldClock();
      std::vector<JobId> jobs;
      for (const JobOptions& options :
           {JobOptions{.net = Net::kCnn, .batch = 256, .width = 64, .steps = 20},
            JobOptions{
                .net = Net::kMlp, .optim = Optim::kAdam, .batch = 512, .width = 1024, .steps = 60},
            JobOptions{
                .net = Net::kCnn, .optim = Optim::kAdam, .batch = 128, .width = 96, .steps = 15},
            JobOptions{.net = Net::kMlp, .batch = 64, .steps = 90}}) {
        const auto job = sim.engine->Submit(BareJob(options));
        ASSERT_TRUE(job.ok()) << job.status();
        jobs.push_back(*job);
      }
      EXPECT_EQ(sim.device->Now(), Micros(0));
      sim.device->ReleaseClock();
      runs.emplace_back();
      for (const JobId job : jobs) {
        const JobInfo info = WaitUntilFinal(*sim.engine, job);
        EXPECT_EQ(info.state, JobState::kSucceeded) << info.message;
        runs.back().push_back(info.device_start.count());
        runs.back().push_back(info.elapsed.count());
      }
      const runtime::OverlapReport overlap = sim.engine->Overlap();
      for (const Micros time : {overlap.wall, overlap.busy, overlap.concurrent}) {
        EXPECT_GT(time, Micros(0));
        runs.back().push_back(time.count());
      }
    }
    EXPECT_THAT(runs[1], ElementsAreArray(runs[0])) << name;
  }
}

TEST(SimEngine, EveryCompleteLaunchIsReportedWithItsTimesAndBytes) {
  std::map<JobId, std::vector<runtime::LaunchReport>> launches;
  {
    const SimEngine sim = MakeSim("v100-16gb", {.memory = MiB(96), .on_launch = [&](const auto& l) {
                                                  launches[l.job].push_back(l);
                                                }});
    sim.device->HoldClock();
    const auto a = sim.engine->Submit(BareJob({.net = Net::kCnn, .batch = 256, .steps = 20}));
    const auto b = sim.engine->Submit(BareJob({.net = Net::kMlp, .batch = 512, .steps = 30}));
    ASSERT_TRUE(a.ok() && b.ok());
    sim.device->ReleaseClock();
    for (const auto& [job, steps] : {std::pair(*a, 20), std::pair(*b, 30)}) {
      const JobInfo info = WaitUntilFinal(*sim.engine, job);
      const auto& seen = launches[job];
      ASSERT_FALSE(seen.empty());
      EXPECT_EQ(std::count_if(seen.begin(), seen.end(), [](const auto& l) { return l.last; }),
                steps);
      EXPECT_EQ(seen.front().start, info.device_start);
      EXPECT_EQ(seen.back().end, info.device_start + info.elapsed);
      int next = 0;
      Micros end;
      Bytes held, peak;
      for (const runtime::LaunchReport& launch : seen) {
        EXPECT_EQ(launch.sub_model, next);
        EXPECT_LE(end, launch.start);
        EXPECT_LE(launch.start, launch.end);
        EXPECT_LE(held, launch.extent);
        EXPECT_LE(launch.held_after, launch.extent);
        EXPECT_GE(launch.region, info.resident);
        next = launch.last ? 0 : next + 1;
        end = launch.end;
        held = launch.held_after;
        peak = std::max(peak, launch.extent);
        EXPECT_TRUE(!launch.last || held == Bytes(0));
      }
      EXPECT_EQ(peak, info.step_peak);
    }
  }
  EXPECT_EQ(launches.size(), 2);
}

TEST(SimEngine, SpeedAndShareAreInDeviceTime) {
  const SimEngine sim = MakeSim("v100-16gb", {.memory = GiB(1)});
  sim.device->HoldClock();
  // Equal jobs: half of the busy time each.
  const auto a = sim.engine->Submit(BareJob({.net = Net::kCnn, .batch = 4096, .steps = 1'000'000}));
  const auto b = sim.engine->Submit(BareJob({.net = Net::kCnn, .batch = 4096, .steps = 1'000'000}));
  ASSERT_TRUE(a.ok() && b.ok());
  sim.device->ReleaseClock();
  JobInfo info = WaitForStep(*sim.engine, *a, 50);
  while (info.steps_per_second == 0 && !runtime::IsFinal(info.state)) {
    info = *sim.engine->WaitForChange(*a, info.version, absl::InfiniteFuture());
  }
  const double per_second =
      static_cast<double>(info.step) / static_cast<double>(info.elapsed.count()) * 1e6;
  EXPECT_NEAR(info.steps_per_second / per_second, 1, 0.1);
  EXPECT_NEAR(info.share, 0.5, 0.1);
  ASSERT_TRUE(info.eta.has_value());
  EXPECT_NEAR(absl::ToDoubleSeconds(*info.eta) * per_second / 1e6, 1, 0.1);
  EXPECT_TRUE(sim.engine->Cancel(*a).ok());
  EXPECT_TRUE(sim.engine->Cancel(*b).ok());
}

// The prediction is the engine's own order of copies and launches on a clock of its own.
TEST(SimEngine, AStepAloneTakesAsLongAsPredicted) {
  for (const JobOptions& options :
       {JobOptions{.net = Net::kCnn, .batch = 4096, .width = 64, .steps = 40},
        JobOptions{
            .net = Net::kMlp, .optim = Optim::kAdam, .batch = 512, .width = 1024, .steps = 40}}) {
    for (const char* profile : {"v100-16gb", "h100-80gb+vector"}) {
      const SimEngine sim = MakeSim(profile, {.memory = GiB(1)});
      const auto prepared = runtime::Prepare(
          BareJob(options), *sim.device,
          {.quantum = partitioner::QuantumFor(GiB(1)), .purpose = runtime::Purpose::kSizes});
      ASSERT_TRUE(prepared.ok()) << prepared.status();
      const auto predicted = runtime::PredictStep(**prepared, sim.device->spec(), GiB(1), 2);
      ASSERT_TRUE(predicted.has_value());
      const auto job = sim.engine->Submit(BareJob(options));
      ASSERT_TRUE(job.ok()) << job.status();
      const JobInfo info = WaitUntilFinal(*sim.engine, *job);
      EXPECT_NEAR(
          static_cast<double>(predicted->count()) * 40 / static_cast<double>(info.elapsed.count()),
          1, 0.03);
    }
  }
  const auto cpu = *device::OpenDevice("cpu", {});
  const auto prepared = runtime::Prepare(MakeJob({}), *cpu, {.quantum = MiB(1)});
  EXPECT_FALSE(runtime::PredictStep(**prepared, cpu->spec(), GiB(15), 2).has_value());
}

TEST(SimEngine, AWaitingJobSaysAfterWhomAndWhenInDeviceTime) {
  const SimEngine sim = MakeSim("v100-16gb", {.memory = MiB(40), .max_lanes = 1});
  sim.device->HoldClock();
  const JobOptions options{.net = Net::kMlp,
                           .optim = Optim::kAdam,
                           .batch = 64,
                           .width = 1024,
                           .steps = 300,
                           .ladder = false};
  std::vector<JobId> jobs;
  for (int j = 0; j < 4; ++j) {
    const auto job = sim.engine->Submit(BareJob(options));
    ASSERT_TRUE(job.ok()) << job.status();
    jobs.push_back(*job);
  }
  // Two fit at once. They are equal and have not begun: the first of them ends first, and the last
  // job follows the second.
  EXPECT_THAT(sim.engine->Explain(jobs[2])->admission, HasSubstr("after j-1 in about "));
  EXPECT_THAT(sim.engine->Explain(jobs[2])->admission, HasSubstr(" of device time: it needs "));
  EXPECT_THAT(sim.engine->Explain(jobs[3])->admission, HasSubstr("after j-2 in about "));
  EXPECT_THAT(sim.engine->Explain(jobs[3])->admission, HasSubstr("; j-3 is before it"));
  EXPECT_TRUE(sim.engine->Pause(jobs[0]).ok());
  EXPECT_TRUE(sim.engine->Pause(jobs[1]).ok());
  EXPECT_THAT(sim.engine->Explain(jobs[2])->admission, HasSubstr("after j-1, which is paused"));
  EXPECT_TRUE(sim.engine->Resume(jobs[0]).ok());
  EXPECT_TRUE(sim.engine->Resume(jobs[1]).ok());
  sim.device->ReleaseClock();
  for (const JobId job : jobs) {
    EXPECT_EQ(WaitUntilFinal(*sim.engine, job).state, JobState::kSucceeded);
  }
}

TEST(SimEngine, StagedBatchesLieOnTheHostAndTheLedgerSums) {
  const SimEngine sim = MakeSim("v100-16gb", {.memory = MiB(64), .max_lanes = 1});
  sim.device->HoldClock();
  std::vector<JobId> jobs;
  for (int j = 0; j < 3; ++j) {
    const auto job =
        sim.engine->Submit(BareJob({.net = Net::kCnn, .batch = 256, .width = 64, .steps = 300}));
    ASSERT_TRUE(job.ok()) << job.status();
    jobs.push_back(*job);
  }
  // 256 images and labels and the number of valid rows, each aligned, three times.
  const Bytes slot = Bytes(4) * 256 * 64 + Bytes(8) * 256 + Bytes(256);
  EXPECT_EQ(sim.engine->Memory().host.at("staging"), slot * 3 * 3);
  sim.device->ReleaseClock();
  bool all_final = false;
  while (!all_final) {
    const runtime::MemoryReport memory = sim.engine->Memory();
    Bytes sum;
    for (const auto& [name, bytes] : memory.classes) sum += bytes;
    ASSERT_EQ(sum, memory.pool);
    ASSERT_EQ(memory.classes.at("staging").count() % slot.count(), 0);
    all_final = true;
    for (const JobId job : jobs) all_final &= runtime::IsFinal(sim.engine->Get(job)->state);
  }
  EXPECT_EQ(sim.engine->Memory().host.at("staging"), Bytes(0));
  EXPECT_GT(sim.engine->Overlap().shared, 0);
  EXPECT_GT(sim.engine->Overlap().concurrent, Micros(0));
}

TEST(SimEngine, MoreThanTheDeviceHasIsRefused) {
  const auto engine = Engine::Create(*device::OpenSim("v100-16gb", {}), {.memory = GiB(16)});
  EXPECT_EQ(engine.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(engine.status().message()), HasSubstr("the device's 15.0 GiB"));
  const SimEngine sim = MakeSim("v100-16gb", {.memory = MiB(8)});
  const absl::Status status =
      sim.engine->Submit(BareJob({.net = Net::kCnn, .batch = 9999})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

// Counts launches whose event has not been seen complete.
class CountsLaunches final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void Launch(device::StreamId stream, const device::LaunchArgs& args) override {
    most_ = std::max(most_.load(), ++outstanding_);
    launched_ = true;
    ForwardingDevice::Launch(stream, args);
  }
  device::EventId Record(device::StreamId stream) override {
    const device::EventId event = ForwardingDevice::Record(stream);
    if (std::exchange(launched_, false)) launches_.insert(event);
    return event;
  }
  void Release(device::EventId event) override {
    if (launches_.erase(event) == 1) --outstanding_;
    ForwardingDevice::Release(event);
  }
  int TakeMost() { return most_.exchange(0); }

 private:
  bool launched_ = false;  // all three on the engine's thread
  int outstanding_ = 0;
  std::set<device::EventId> launches_;
  std::atomic<int> most_ = 0;
};

TEST(SimEngine, AJobHasAtMostItsOwnNumberOfSubModelsInFlight) {
  auto counting = std::make_unique<CountsLaunches>(*device::OpenSim("v100-16gb", {}));
  CountsLaunches& launches = *counting;
  const auto engine = Engine::Create(std::move(counting),
                                     {.memory = GiB(1), .quantum = KiB(64), .max_in_flight = 2});
  ASSERT_TRUE(engine.ok()) << engine.status();
  runtime::JobSpec spec = BareJob({.net = Net::kCnn, .batch = 256, .width = 64, .steps = 50});
  EXPECT_EQ(WaitUntilFinal(**engine, *(*engine)->Submit(spec)).max_in_flight, 2);
  EXPECT_EQ(launches.TakeMost(), 2);
  spec.max_in_flight = 5;
  EXPECT_EQ(WaitUntilFinal(**engine, *(*engine)->Submit(spec)).max_in_flight, 5);
  EXPECT_EQ(launches.TakeMost(), 5);

  spec.stop.steps = int64_t{1} << 40;
  const JobId job = *(*engine)->Submit(spec);
  const auto steps_more = [&](int64_t steps) {
    const JobInfo info = *(*engine)->Get(job);
    return WaitForStep(**engine, job, info.step + steps);
  };
  steps_more(5);
  EXPECT_TRUE((*engine)->Update(job, {.max_in_flight = 1}).ok());
  steps_more(5);
  launches.TakeMost();
  steps_more(5);
  EXPECT_EQ(launches.TakeMost(), 1);
  EXPECT_TRUE((*engine)->Update(job, {.max_in_flight = 0}).ok());  // the engine's again
  steps_more(5);
  EXPECT_EQ(launches.TakeMost(), 2);
  EXPECT_EQ((*engine)->Get(job)->max_in_flight, 2);
  for (const int bad : {-1, 65}) {
    EXPECT_THAT(std::string((*engine)->Update(job, {.max_in_flight = bad}).message()),
                HasSubstr("within [1, 64]"));
  }
  EXPECT_TRUE((*engine)->Cancel(job).ok());
  spec.max_in_flight = -1;
  EXPECT_THAT(std::string((*engine)->Submit(spec).status().message()),
              HasSubstr("resources: max_in_flight is -1"));
}

class DropsWaits final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void Wait(device::StreamId, device::EventId) override {}
};

TEST(SimEngine, TheRaceCheckSeesAWaitThatIsMissing) {
  int faults = 0;
  auto device = *device::OpenSim("v100-16gb", {});
  SimDevice* sim = device.get();
  sim->HoldClock();
  auto checked =
      device::CheckRaces(std::move(device), {.on_fault = [&](const std::string&) { ++faults; }});
  const auto engine = Engine::Create(std::make_unique<DropsWaits>(std::move(checked)),
                                     {.memory = MiB(48), .max_lanes = 1, .max_in_flight = 4});
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::vector<JobId> jobs;
  for (int j = 0; j < 3; ++j) {
    const auto job =
        (*engine)->Submit(BareJob({.net = Net::kCnn, .batch = 256, .width = 64, .steps = 100}));
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_GT((*engine)->Get(*job)->step_peak * 2, MiB(48));  // two cannot rise at once
    jobs.push_back(*job);
  }
  sim->ReleaseClock();
  for (const JobId job : jobs) WaitUntilFinal(**engine, job);
  EXPECT_GT(faults, 0);
}

}  // namespace
}  // namespace ebb::testing
