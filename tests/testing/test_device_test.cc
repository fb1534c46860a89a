// The memory of a device apart from the host's is reached by copies, and the environment says where
// tests run.
#include "tests/testing/test_device.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "device/forwarding_device.h"
#include "graph/text.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

// The cpu device, were its memory not the host's. Counts copies.
class FarDevice final : public device::ForwardingDevice {
 public:
  FarDevice() : ForwardingDevice(*device::OpenDevice("cpu", {})), spec_(inner().spec()) {
    spec_.host_memory = false;
  }
  const DeviceSpec& spec() const override { return spec_; }
  void Copy(device::StreamId stream, void* to, const void* from, Bytes bytes) override {
    ++copies_;
    inner().Copy(stream, to, from, bytes);
  }
  int copies() const { return copies_; }

 private:
  DeviceSpec spec_;
  int copies_ = 0;
};

TEST(TestMemory, OfADeviceApartIsFilledAndReadByCopies) {
  FarDevice device;
  TestMemory memory(device);
  // More than a chunk, then what lies in one behind another.
  const std::vector<int> many(20 << 20, 7), few = {1, 2, 3};
  int* const large = memory.Allocate(many);
  std::set<int*> places = {large};
  for (int i = 0; i < 3; ++i) {
    int* const small = memory.Allocate(few);
    EXPECT_TRUE(places.insert(small).second);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(small) % 64, 0u);
  }
  EXPECT_EQ(device.copies(), 4);
  for (int* place : places)
    EXPECT_EQ(memory.Read(place, 3), place == large ? std::vector(3, 7) : few);
  EXPECT_EQ(memory.Read(large, many.size()), many);
  EXPECT_EQ(device.copies(), 9);
  EXPECT_TRUE(memory.Read(large, 0).empty());
}

TEST(TestMemory, GraphsRunInIt) {
  const auto graph = graph::ParseGraph(
      "x = input f32[3]; c = constant f32[3] 1 2 3; s = Add(x, c); y = Relu(s); z = Neg(y)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  const graph::TensorMap feeds = {{"x", FromDoubles({graph::DType::kF32, {3}}, {-5, 1, 0.5})}};
  FarDevice device;
  for (const Placement placement : {Placement::kSeparate, Placement::kShared}) {
    const auto values = RunGraph(device, *graph, feeds, placement);
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(ToDoubles(values->at("s")), (std::vector<double>{-4, 3, 3.5}));
    EXPECT_EQ(ToDoubles(values->at("z")), (std::vector<double>{0, -3, -3.5}));
  }
}

TEST(TestDevice, IsWhatTheEnvironmentSays) {
  unsetenv("EBB_TEST_DEVICE");
  EXPECT_EQ(TestDevice("cpu"), "cpu");
  EXPECT_EQ(TestDevices({"ref", "cpu"}), (std::vector<std::string>{"ref", "cpu"}));
  setenv("EBB_TEST_DEVICE", "cuda:1", 1);
  EXPECT_EQ(TestDevice("cpu"), "cuda:1");
  EXPECT_EQ(TestDevices({"ref", "cpu"}), std::vector<std::string>{"cuda:1"});
  EXPECT_EQ(TestName("cuda:1"), "cuda_1");
  unsetenv("EBB_TEST_DEVICE");

  unsetenv("EBB_SOURCE_DIR");
  EXPECT_EQ(SourcePath("a/b"), EBB_SOURCE_DIR "/a/b");
  setenv("EBB_SOURCE_DIR", "/elsewhere", 1);
  EXPECT_EQ(SourcePath("a/b"), "/elsewhere/a/b");
  unsetenv("EBB_SOURCE_DIR");
}

}  // namespace
}  // namespace ebb::testing
