// A step's bits depend on its graph and the device's thread count, not on who runs beside it.
#include <thread>

#include "device/device.h"
#include "gtest/gtest.h"
#include "tests/device/small_cnn.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::Graph;
using graph::HostTensor;

constexpr int kSteps = 10;

// Contents of all residents after some steps.
std::vector<HostTensor> Train(device::Device& device, const Graph& graph, uint64_t seed) {
  auto runner = GraphRunner::Make(device, graph, Placement::kShared);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  for (const auto& [name, tensor] : SmallCnnFeeds(graph, seed)) {
    EXPECT_TRUE((*runner)->Set(name, tensor).ok());
  }
  const graph::TensorMap feeds = SmallCnnFeeds(graph, seed);
  for (int step = 1; step <= kSteps; ++step) {
    for (const char* input : {"image", "label"}) {
      EXPECT_TRUE((*runner)->Set(input, feeds.at(input)).ok());
    }
    EXPECT_TRUE(
        (*runner)
            ->Set("ebb.hyper", FromDoubles({graph::DType::kF64, {4}}, {0.1, double(step), 0, 0}))
            .ok());
    EXPECT_TRUE((*runner)->Run().ok());
  }
  std::vector<HostTensor> state;
  for (const graph::Value& value : graph.values) {
    if (graph::IsResident(value.role)) state.push_back((*runner)->Get(value.id));
  }
  return state;
}

bool SameBits(const std::vector<HostTensor>& a, const std::vector<HostTensor>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].data != b[i].data) return false;
  }
  return true;
}

class CpuDeterminism : public ::testing::TestWithParam<int> {};

TEST_P(CpuDeterminism, NeighboursDoNotChangeBits) {
  auto device = *device::OpenDevice("cpu", {.threads_per_stream = GetParam()});
  std::vector<Graph> graphs;
  for (const auto& [batch, width] : {std::pair<int64_t, int64_t>{4, 16}, {7, 24}}) {
    auto graph = SmallCnn(batch, width, GraphUse::kTraining);
    ASSERT_TRUE(graph.ok()) << graph.status();
    auto lowered = device->Lower(*std::move(graph));
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    graphs.push_back(*std::move(lowered));
  }
  const std::vector<HostTensor> alone[] = {Train(*device, graphs[0], 1),
                                           Train(*device, graphs[1], 2)};
  ASSERT_FALSE(alone[0].empty());
  for (int repeat = 0; repeat < 3; ++repeat) {
    std::vector<HostTensor> together[3];
    std::thread threads[] = {
        std::thread([&] { together[0] = Train(*device, graphs[0], 1); }),
        std::thread([&] { together[1] = Train(*device, graphs[1], 2); }),
        std::thread([&] { together[2] = Train(*device, graphs[0], 3); }),
    };
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(SameBits(alone[0], together[0]));
    EXPECT_TRUE(SameBits(alone[1], together[1]));
    EXPECT_FALSE(SameBits(alone[0], together[2]));  // other data, other bits: the test can fail
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuDeterminism, ::testing::Values(1, 2));

}  // namespace
}  // namespace ebb::testing
