// The channels-last pass changes where elements are, not what they are.
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "device/device.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "gtest/gtest.h"
#include "tests/device/small_cnn.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::Graph;
using graph::HostTensor;
using graph::Layout;
using graph::Role;

int CountOps(const Graph& graph, absl::string_view op) {
  int count = 0;
  for (const graph::Node& node : graph.nodes) count += node.op->name == op ? 1 : 0;
  return count;
}

class CpuLower : public ::testing::TestWithParam<GraphUse> {
 protected:
  void SetUp() override {
    cpu_ = *device::OpenDevice("cpu", {});
    ref_ = *device::OpenDevice("ref", {});
    auto plain = SmallCnn(4, 20, GetParam());
    ASSERT_TRUE(plain.ok()) << plain.status();
    plain_ = *std::move(plain);
    auto lowered = cpu_->Lower(plain_);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    lowered_ = *std::move(lowered);
  }

  std::unique_ptr<device::Device> cpu_, ref_;
  Graph plain_, lowered_;
};

TEST_P(CpuLower, MakesAGraphThatVerifies) {
  const absl::Status status = graph::Verify(lowered_);
  EXPECT_TRUE(status.ok()) << status;
}

TEST_P(CpuLower, KeepsInputsResidentsAndMetricsPlainUnderTheirNames) {
  for (const graph::Value& value : plain_.values) {
    const graph::Value& after = lowered_.value(value.id);
    EXPECT_EQ(after.name, value.name);
    EXPECT_EQ(after.type, value.type);
    EXPECT_EQ(after.role, value.role);
    EXPECT_EQ(lowered_.Find(value.name), value.id);
    EXPECT_TRUE(after.role == Role::kActivation || after.layout == Layout::kPlain) << value.name;
  }
}

// The image comes in and its flat form goes out; the gradient comes back as the two parts of the
// concatenation. Nothing in between.
TEST_P(CpuLower, ConvertsAtTheBordersOnly) {
  const bool training = GetParam() == GraphUse::kTraining;
  EXPECT_EQ(CountOps(lowered_, "ToChannelsLast"), training ? 3 : 1);
  EXPECT_EQ(CountOps(lowered_, "ToPlain"), 1);
  int last = 0;
  for (const graph::Value& value : lowered_.values) {
    last += value.layout == Layout::kChannelsLast ? 1 : 0;
  }
  EXPECT_GT(last, training ? 30 : 12);
}

TEST_P(CpuLower, ComputesTheSameValues) {
  const graph::TensorMap feeds = SmallCnnFeeds(plain_, 5);
  const auto want = RunGraph(*ref_, plain_, feeds);
  ASSERT_TRUE(want.ok()) << want.status();
  for (const Placement placement : {Placement::kSeparate, Placement::kShared}) {
    for (const Graph* graph : {&plain_, &lowered_}) {
      SCOPED_TRACE(graph == &plain_ ? "as built" : "lowered");
      const auto got = RunGraph(*cpu_, *graph, feeds, placement);
      ASSERT_TRUE(got.ok()) << got.status();
      for (const graph::Value& value : plain_.values) {
        if (!graph::IsFloat(value.type.dtype)) continue;
        EXPECT_LE(RelativeL2(got->at(value.name), want->at(value.name)), 1e-5) << value.name;
      }
    }
  }
}

TEST_P(CpuLower, IsAFixedPointWithoutConvolutions) {
  Graph graph;
  const ValueId x = graph.AddValue("x", {graph::DType::kF32, {2, 3, 4, 5}}, Role::kInput);
  ASSERT_TRUE(graph.Add("Relu", "y", {x}).ok());
  const auto lowered = cpu_->Lower(graph);
  ASSERT_TRUE(lowered.ok());
  EXPECT_EQ(graph::ToText(*lowered), graph::ToText(graph));
}

// An output of the graph is read by others, so its own value is the plain one.
TEST_P(CpuLower, GivesGraphOutputsInPlainOrder) {
  Graph graph;
  const ValueId x = graph.AddValue("x", {graph::DType::kF32, {2, 3, 6, 6}}, Role::kInput);
  const ValueId w = graph.AddValue("w", {graph::DType::kF32, {4, 3, 3, 3}}, Role::kParam);
  const ValueId y = *graph.Add("Conv", "y", {x, w},
                               {{"strides", std::vector<int64_t>{1, 1}},
                                {"pads", std::vector<int64_t>{0, 0, 0, 0}},
                                {"dilations", std::vector<int64_t>{1, 1}}});
  graph.outputs = {y};
  const auto lowered = cpu_->Lower(graph);
  ASSERT_TRUE(lowered.ok());
  ASSERT_TRUE(graph::Verify(*lowered).ok()) << graph::Verify(*lowered);
  EXPECT_EQ(lowered->outputs, graph.outputs);
  EXPECT_EQ(lowered->value(y).layout, Layout::kPlain);
  const graph::TensorMap feeds = {{"x", RandomTensor(graph.value(x).type, 1)},
                                  {"w", RandomTensor(graph.value(w).type, 2)}};
  const auto want = RunGraph(*ref_, graph, feeds);
  const auto got = RunGraph(*cpu_, *lowered, feeds);
  ASSERT_TRUE(want.ok() && got.ok());
  EXPECT_LE(RelativeL2(got->at(graph.value(y).name), want->at(graph.value(y).name)), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Graphs, CpuLower,
                         ::testing::Values(GraphUse::kTraining, GraphUse::kEvaluation),
                         [](const auto& info) {
                           return info.param == GraphUse::kTraining ? "training" : "evaluation";
                         });

}  // namespace
}  // namespace ebb::testing
