// Batches that cross a bus: copied to the device ahead of their step while memory does not bind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/check/race_check.h"
#include "device/forwarding_device.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using runtime::Engine;
using runtime::JobInfo;
using runtime::JobState;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The cpu, told that its memory is not the host's.
class FarDevice final : public device::ForwardingDevice {
 public:
  FarDevice() : ForwardingDevice(*device::OpenDevice("cpu", {})), spec_(inner().spec()) {
    spec_.host_memory = false;
  }
  const DeviceSpec& spec() const override { return spec_; }

 private:
  DeviceSpec spec_;
};

std::unique_ptr<Engine> MakeFar(runtime::EngineOptions options) {
  return *Engine::Create(
      device::CheckRaces(std::make_unique<FarDevice>(),
                         {.on_fault = [](const std::string& fault) { ADD_FAILURE() << fault; }}),
      options);
}

runtime::JobSpec WithoutPrefetch(runtime::JobSpec spec) {
  spec.ladder.prefetch = false;
  return spec;
}

TEST(Ahead, BatchesThatCrossABusGiveTheSameBits) {
  const JobOptions options{.net = Net::kCnn, .width = 8, .steps = 40, .validate = true};
  const std::string near = SoloFingerprint(options);
  const auto engine = MakeFar({.memory = MiB(16)});
  const auto run = [&](const runtime::JobSpec& spec) {
    const auto job = engine->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    const JobInfo info = WaitUntilFinal(*engine, *job);
    EXPECT_EQ(Fingerprint(*engine, *job), near);
    return info.staging;
  };
  EXPECT_GT(run(MakeJob(options)), Bytes(0));
  EXPECT_EQ(run(WithoutPrefetch(MakeJob(options))), Bytes(0));
  EXPECT_EQ(engine->Memory().classes.at("free"), engine->Memory().pool);
}

// Regions come, grow and shrink while batches are on their way.
TEST(Ahead, JobsThatComePauseAndLeaveKeepTheirBits) {
  const JobOptions options{
      .net = Net::kCnn, .width = 16, .steps = 150, .seed = 3, .validate = true};
  const std::string solo = SoloFingerprint(options);
  // Two fit, but not their steps beside each other.
  JobInfo alone;
  {
    const auto engine = MakeFar({.memory = MiB(16), .max_lanes = 1});
    alone = WaitUntilFinal(*engine, *engine->Submit(MakeJob(options)));
  }
  const Bytes granule = KiB(64);
  const Bytes memory = AlignUp(alone.resident + alone.staging, granule) * 2 +
                       AlignUp(alone.step_peak, granule) + granule;
  const auto engine = MakeFar({.memory = memory, .quantum = KiB(64), .max_lanes = 1});
  int given_up = 0;
  for (int round = 0; round < 5; ++round) {
    const auto job = *engine->Submit(MakeJob(options));
    WaitForStep(*engine, job, 1 + round);
    JobOptions endless = options;
    endless.steps = 1'000'000;
    const auto other = *engine->Submit(MakeJob(endless));
    WaitForStep(*engine, other, 3);
    given_up += engine->Get(other)->staging == Bytes(0);
    (void)engine->Pause(job);  // it may have ended by now
    (void)engine->Resume(job);
    EXPECT_TRUE(engine->Cancel(other).ok());
    EXPECT_EQ(WaitUntilFinal(*engine, job).state, JobState::kSucceeded);
    EXPECT_EQ(Fingerprint(*engine, job), solo);
  }
  EXPECT_GT(given_up, 0);
}

// On a simulated device, large enough for the copy to count.
runtime::JobSpec BareJob(int64_t steps) {
  runtime::JobSpec spec = ZooJob("mobilenet_v2", 64, steps);
  spec.ladder = AllResident();
  return spec;
}

TEST(Ahead, AJobAloneDoesNotWaitForTheBus) {
  const auto engine = MakeSimEngine(GiB(8));
  const auto step = [&](const runtime::JobSpec& spec) {
    const auto job = engine->Submit(spec);
    EXPECT_TRUE(job.ok()) << job.status();
    return absl::ToDoubleMicroseconds(
               absl::Microseconds(WaitUntilFinal(*engine, *job).elapsed.count())) /
           30;
  };
  const double with = step(BareJob(30)), without = step(WithoutPrefetch(BareJob(30)));
  const double copy = 64.0 * 3 * 224 * 224 * 4 / 12e3;  // at 12 GB/s
  EXPECT_NEAR((without - with) / copy, 1, 0.1);
}

TEST(Ahead, TheRoomIsGivenUpWhileMemoryBinds) {
  const auto engine =
      *Engine::Create(*device::OpenDevice("sim:v100-16gb", {}), {.memory = GiB(4), .max_lanes = 1});
  const auto first = *engine->Submit(BareJob(1'000'000));
  WaitForStep(*engine, first, 2);
  const Bytes room = engine->Get(first)->staging;
  EXPECT_EQ(room, AlignUp(Bytes(int64_t{64} * 3 * 224 * 224 * 4), Bytes(256)) + Bytes(512 + 256));
  EXPECT_THAT(engine->Explain(first)->next_batch, StartsWith("copied while the step before runs"));
  const auto second = *engine->Submit(BareJob(1'000'000));
  WaitForStep(*engine, second, 2);
  EXPECT_GT(engine->Get(second)->step_peak * 2, GiB(4));
  EXPECT_EQ(engine->Get(first)->staging + engine->Get(second)->staging, Bytes(0));
  EXPECT_THAT(engine->Explain(second)->next_batch, HasSubstr("are not free"));
  EXPECT_TRUE(engine->Cancel(second).ok());
  WaitForStep(*engine, first, engine->Get(first)->step + 20);
  EXPECT_EQ(engine->Get(first)->staging, room);
  EXPECT_TRUE(engine->Cancel(first).ok());
}

// Its `nth` copy on the stream that was created fourth fails: that of batches, where there is one
// lane of two ends and the stream for uploads.
class FailsACopyAhead final : public device::ForwardingDevice {
 public:
  FailsACopyAhead(std::unique_ptr<device::Device> inner, int nth)
      : ForwardingDevice(std::move(inner)), left_(nth) {}
  device::StreamId CreateStream() override {
    const device::StreamId stream = ForwardingDevice::CreateStream();
    if (++streams_ == 4) ahead_ = stream;
    return stream;
  }
  void Copy(device::StreamId stream, void* to, const void* from, Bytes bytes) override {
    if (stream == ahead_ && --left_ == 0) failing_ = true;
    ForwardingDevice::Copy(stream, to, from, bytes);
  }
  device::EventId Record(device::StreamId stream) override {
    const device::EventId event = ForwardingDevice::Record(stream);
    if (stream == ahead_ && std::exchange(failing_, false)) failed_ = event;
    return event;
  }
  device::EventState Query(device::EventId event) const override {
    device::EventState state = ForwardingDevice::Query(event);
    if (event == failed_) state.status = absl::InternalError("it was made to fail");
    return state;
  }

 private:
  int left_, streams_ = 0;
  bool failing_ = false;
  device::StreamId ahead_;
  device::EventId failed_;
};

TEST(Ahead, AFailedCopyEndsItsJobAlone) {
  for (const int nth : {1, 2, 7}) {
    const auto engine = *Engine::Create(
        std::make_unique<FailsACopyAhead>(*device::OpenDevice("sim:v100-16gb", {}), nth),
        {.memory = GiB(8), .max_lanes = 1});
    const auto a = *engine->Submit(BareJob(20)), b = *engine->Submit(BareJob(20));
    const JobInfo first = WaitUntilFinal(*engine, a), second = WaitUntilFinal(*engine, b);
    EXPECT_EQ((first.state == JobState::kFailed) + (second.state == JobState::kFailed), 1);
    EXPECT_EQ((first.state == JobState::kSucceeded) + (second.state == JobState::kSucceeded), 1);
    EXPECT_THAT(first.message + second.message, HasSubstr("it was made to fail"));
    EXPECT_EQ(engine->Memory().classes.at("free"), GiB(8));
  }
}

}  // namespace
}  // namespace ebb::testing
