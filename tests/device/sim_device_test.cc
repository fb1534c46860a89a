// The simulated device as a device: where copies go, what the clock does, how it is opened.
#include "device/sim/sim_device.h"

#include <thread>

#include "gmock/gmock.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/device/sim_profiles.h"

namespace ebb::device {
namespace {

using ebb::testing::PlainProfile;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SimDeviceTest : public ::testing::Test {
 protected:
  // Addresses of the device.
  char* Reserve() {
    base_ = *device_.granules().Reserve(MiB(1));
    return base_;
  }
  ~SimDeviceTest() override {
    if (base_ != nullptr) device_.granules().Unreserve(base_, MiB(1));
  }
  EventState Finish(StreamId stream) {
    const EventId event = device_.Record(stream);
    while (!device_.Query(event).complete) device_.AwaitProgress(absl::InfiniteDuration());
    return device_.Query(event);
  }

  SimDevice device_{PlainProfile(), OverlapModel::kSlots};
  char* base_ = nullptr;
};

TEST_F(SimDeviceTest, CopiesTakeTheTimeOfTheWayTheyGo) {
  char* device = Reserve();
  char host[8] = "host";
  const StreamId stream = device_.CreateStream();
  device_.Copy(stream, device, host, Bytes(1000));  // 100 bytes a microsecond
  EXPECT_EQ(Finish(stream).end, Micros(10));
  device_.Copy(stream, host, device, Bytes(2000));
  EXPECT_EQ(Finish(stream).end, Micros(30));
  device_.Copy(stream, device, device + 4000, Bytes(4000));  // 1,000 a microsecond, both ways
  EXPECT_EQ(Finish(stream).end, Micros(38));
  device_.Copy(stream, host, host + 1, Bytes(4));
  EXPECT_EQ(Finish(stream).end, Micros(38));
  EXPECT_STREQ(host, "host");  // nothing is moved
}

TEST_F(SimDeviceTest, ALaunchTakesTheTimeOfItsKernels) {
  auto graph = graph::ParseGraph(
      "x = input f32[25000]\na = Relu(x)\nb = Reshape(a) {shape=[250,100]}\nc = Relu(b)\n");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto program = device_.Compile(*graph);
  ASSERT_TRUE(program.ok());
  const Bindings bindings;
  const StreamId stream = device_.CreateStream();
  device_.Launch(stream, {program->get(), &bindings, 0, 2});
  EXPECT_EQ(Finish(stream).end, Micros(400));
}

TEST_F(SimDeviceTest, NoTimePassesWhileTheClockIsHeld) {
  device_.HoldClock();
  const StreamId stream = device_.CreateStream();
  device_.Copy(stream, Reserve(), &device_, Bytes(1000));
  const EventId event = device_.Record(stream);
  device_.AwaitProgress(absl::Milliseconds(1));
  EXPECT_FALSE(device_.Query(event).complete);
  EXPECT_EQ(device_.Now(), Micros(0));
  std::thread releaser([&] { device_.ReleaseClock(); });
  device_.AwaitProgress(absl::InfiniteDuration());
  releaser.join();
  EXPECT_TRUE(device_.Query(event).complete);
  EXPECT_EQ(device_.Now(), Micros(10));
}

TEST_F(SimDeviceTest, ADriverStopsTheClockAtAnInstantAndSeesWhenNothingMoves) {
  using Standstill = SimDevice::Standstill;
  char* device = Reserve();
  EXPECT_EQ(device_.AwaitStandstill(absl::Milliseconds(1)), Standstill::kWorking);
  device_.HoldAt(Micros(15));
  const StreamId stream = device_.CreateStream();
  std::vector<EventId> events;
  for (int i = 0; i < 3; ++i) {
    device_.Copy(stream, device, &device_, Bytes(1000));  // 10 us
    events.push_back(device_.Record(stream));
  }
  std::thread engine([&] {
    for (size_t seen = 0; seen < events.size();) {
      device_.AwaitProgress(absl::Milliseconds(5));
      while (seen < events.size() && device_.Query(events[seen]).complete) ++seen;
    }
    device_.AwaitProgress(absl::InfiniteDuration());
  });
  EXPECT_EQ(device_.AwaitStandstill(absl::InfiniteDuration()), Standstill::kHeld);
  EXPECT_EQ(device_.Now(), Micros(20));
  EXPECT_TRUE(device_.Query(events[1]).complete);
  EXPECT_FALSE(device_.Query(events[2]).complete);
  device_.HoldAt(Micros(100));
  EXPECT_EQ(device_.AwaitStandstill(absl::InfiniteDuration()), Standstill::kAtRest);
  EXPECT_EQ(device_.Now(), Micros(30));
  device_.Wake();
  engine.join();
}

TEST_F(SimDeviceTest, TimeStopsAtEveryEventThatCompletes) {
  char* device = Reserve();
  const StreamId stream = device_.CreateStream();
  std::vector<EventId> events;
  for (int i = 0; i < 3; ++i) {
    device_.Copy(stream, device, &device_, Bytes(1000));
    events.push_back(device_.Record(stream));
  }
  EXPECT_EQ(device_.Now(), Micros(0));
  for (int i = 0; i < 3; ++i) {
    device_.AwaitProgress(absl::InfiniteDuration());
    EXPECT_EQ(device_.Now(), Micros(10) * (i + 1));
    EXPECT_TRUE(device_.Query(events[i]).complete);
  }
}

TEST_F(SimDeviceTest, MemoryBeyondTheDevicesIsRefused) {
  memory::GranuleSource& granules = device_.granules();
  char* base = *granules.Reserve(GiB(4));  // addresses are free
  EXPECT_TRUE(granules.Commit(base, Bytes(0), GiB(1)).ok());
  const absl::Status more = granules.Commit(base, GiB(1), KiB(64));
  EXPECT_EQ(more.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(more.message()), HasSubstr("0 B of 1.0 GiB are left"));
  granules.Decommit(base, Bytes(0), KiB(64));
  EXPECT_TRUE(granules.Commit(base, GiB(1), KiB(64)).ok());
  granules.Unreserve(base, GiB(4));
}

TEST(OpenSim, NamesSayProfileAndOverlapModel) {
  const auto plain = OpenDevice("sim:v100-16gb", {});
  ASSERT_TRUE(plain.ok()) << plain.status();
  const DeviceSpec& spec = (*plain)->spec();
  EXPECT_EQ(spec.kind, "sim");
  EXPECT_EQ(spec.profile, "v100-16gb");
  EXPECT_EQ(spec.overlap_model, "slots");
  EXPECT_EQ(spec.constants_sha256.size(), 64u);
  EXPECT_EQ(spec.memory, GiB(15));
  EXPECT_FALSE(spec.computes);
  EXPECT_FALSE(spec.host_memory);
  EXPECT_EQ((*OpenDevice("sim:h200-141gb+vector", {}))->spec().overlap_model, "vector");
  EXPECT_EQ((*OpenDevice("sim:h200-141gb+slots", {}))->spec().overlap_model, "slots");
}

TEST(OpenSim, MistakesAreExplained) {
  const auto said = [](const std::string& name) {
    return std::string(OpenDevice(name, {}).status().message());
  };
  EXPECT_EQ(OpenDevice("sim:v100", {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(said("sim:v100"), AllOf(HasSubstr("\"v100\""), HasSubstr("a100-40gb")));
  EXPECT_THAT(said("sim:"), HasSubstr("a100-40gb"));
  EXPECT_THAT(said("sim:v100-16gb+all"), HasSubstr("slots or vector"));
  EXPECT_THAT(said("sim"), HasSubstr("sim:PROFILE"));
  EXPECT_EQ(OpenDevice("sim:v100-16gb", {.threads_per_stream = 2}).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ebb::device
