// The race check under the whole engine, on a device that computes nothing: silent as it is, and
// loud when a rule of the engine is broken on the way to the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <vector>

#include "device/check/race_check.h"
#include "device/forwarding_device.h"
#include "tests/testing/idle_device.h"
#include "tests/testing/jobs.h"

namespace ebb::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// What a broken engine would enqueue.
class DropsWaits final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void Wait(device::StreamId, device::EventId) override {}
};

class DropsWaitsOfOneEnd final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  void Wait(device::StreamId stream, device::EventId event) override {
    if (stream.value() % 2 == 1) ForwardingDevice::Wait(stream, event);
  }
};

// Waits for another of the newest two events.
class WaitsForTheWrongEvent final : public device::ForwardingDevice {
 public:
  using ForwardingDevice::ForwardingDevice;
  device::EventId Record(device::StreamId stream) override {
    before_ = newest_;
    newest_ = ForwardingDevice::Record(stream);
    return newest_;
  }
  void Release(device::EventId event) override {
    for (device::EventId* kept : {&before_, &newest_}) {
      if (*kept == event) *kept = device::EventId();
    }
    ForwardingDevice::Release(event);
  }
  void Wait(device::StreamId stream, device::EventId event) override {
    const device::EventId wrong = event == newest_ ? before_ : newest_;
    if (wrong.valid()) ForwardingDevice::Wait(stream, wrong);
  }

 private:
  device::EventId before_, newest_;  // the engine's thread only
};

struct Faults {
  int count = 0;
  std::string first;
};

// Trains four jobs in memory for one and a half, through `Broken` if there is such a device.
template <class Broken>
Faults Train() {
  Faults faults;
  std::unique_ptr<device::Device> device =
      device::CheckRaces(MakeIdleDevice(), {.on_fault = [&faults](const std::string& fault) {
                           if (++faults.count == 1) faults.first = fault;
                         }});
  if constexpr (!std::is_void_v<Broken>) device = std::make_unique<Broken>(std::move(device));
  auto engine = runtime::Engine::Create(std::move(device),
                                        {.memory = KiB(2048), .max_lanes = 1, .max_in_flight = 4});
  EXPECT_TRUE(engine.ok()) << engine.status();
  std::vector<JobId> jobs;
  for (int j = 0; j < 4; ++j) {
    const auto job = (*engine)->Submit(MakeJob({.net = j % 2 ? Net::kCnn : Net::kMlp,
                                                .batch = 48,
                                                .width = j % 2 ? 12 : 96,
                                                .steps = 100,
                                                .seed = static_cast<uint64_t>(j)}));
    EXPECT_TRUE(job.ok()) << job.status();
    jobs.push_back(*job);
  }
  for (const JobId job : jobs) WaitUntilFinal(**engine, job);
  EXPECT_GT((*engine)->Overlap().shared, 0);
  return faults;
}

TEST(Races, TheEngineHasNone) {
  const Faults faults = Train<void>();
  EXPECT_EQ(faults.count, 0) << faults.first;
}

template <class Broken>
class BrokenEngine : public ::testing::Test {};
using Broken = ::testing::Types<DropsWaits, DropsWaitsOfOneEnd, WaitsForTheWrongEvent>;
TYPED_TEST_SUITE(BrokenEngine, Broken);

TYPED_TEST(BrokenEngine, IsFoundOut) {
  const Faults faults = Train<TypeParam>();
  EXPECT_GT(faults.count, 0);
  EXPECT_THAT(faults.first, AllOf(HasSubstr("race"), HasSubstr("nothing orders it after")));
}

}  // namespace
}  // namespace ebb::testing
