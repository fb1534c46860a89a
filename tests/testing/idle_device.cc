#include "tests/testing/idle_device.h"

#include "absl/time/clock.h"
#include "device/host/host_device.h"

namespace ebb::testing {
namespace {

constexpr absl::Duration kNodeTime = absl::Microseconds(20);

absl::StatusOr<device::Kernel> MakeIdle(const graph::Graph&, const graph::Node&) {
  const auto run = [](const device::KernelArgs&) {
    const absl::Time end = absl::Now() + kNodeTime;
    while (absl::Now() < end) {
    }
    return absl::OkStatus();
  };
  return device::Kernel{.run = run, .workspace = Bytes(0)};
}

}  // namespace

std::unique_ptr<device::Device> MakeIdleDevice() {
  return std::make_unique<device::HostDevice>(device::HostConfig{
      .spec = device::HostSpec("idle", 1),
      .find_kernel = [](absl::string_view) -> device::KernelFactory { return MakeIdle; },
      .thread_setup = {}});
}

}  // namespace ebb::testing
