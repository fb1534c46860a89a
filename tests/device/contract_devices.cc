// The devices that every machine has, or the one of EBB_TEST_DEVICE.
#include "tests/device/contract_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/device.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {

using ::testing::HasSubstr;

std::vector<std::string> ContractDevices() {
  const std::string given = TestDevice("");
  if (!given.empty()) return {given, "checked_" + given};
  return {"ref", "cpu", "checked_ref", "sim:v100-16gb", "checked_sim:v100-16gb"};
}

TEST(OpenDevice, UnknownNamesListWhatThereIs) {
  for (const char* name : {"", "gpu", "cuda:x", "cuda:-1", "cpu+nographs", "sim"}) {
    const absl::Status status = device::OpenDevice(name, {}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("\"cpu\", \"ref\"")) << name;
  }
}

}  // namespace ebb::testing
