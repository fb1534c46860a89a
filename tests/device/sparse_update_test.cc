// Tables whose rows are updated from what they were looked up for: the same bits as by way of the
// gradient of the whole table, which is never made.
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "device/device.h"
#include "graph/op.h"
#include "graph/text.h"
#include "graph/training.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {
namespace {

using graph::DType;
using graph::Graph;
using graph::TensorMap;

// 24 look-ups in a table of 50 rows: some rows often, most never.
Graph Forward(absl::string_view more = "output scores") {
  auto graph = graph::ParseGraph(absl::StrCat(R"(
    ids = input i64[8,3]; table = param f32[50,16]; w = param f32[48,4]
    e = Gather(table, ids) {axis=0}
    flat = Reshape(e) {shape=[8,48]}
    scores = MatMul(flat, w)
  )",
                                              more));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

graph::TrainingOptions Options(bool sparse) {
  graph::OptimizerSpec rows{.kind = graph::OptimizerKind::kRowwiseAdagrad, .sparse = sparse};
  graph::TrainingOptions options;
  options.groups = {{"table", rows}};
  return options;
}

bool Has(const Graph& graph, absl::string_view op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const graph::Node& node) { return node.op->name == op; });
}

// The table and its sums after three steps.
TensorMap Train(const std::string& device_name, Graph graph, int64_t features = 48) {
  const auto device = *device::OpenDevice(device_name, {});
  auto lowered = device->Lower(std::move(graph));
  EXPECT_TRUE(lowered.ok()) << lowered.status();
  EXPECT_TRUE(graph::Verify(*lowered).ok()) << graph::Verify(*lowered);
  auto runner = GraphRunner::Make(*device, *lowered, Placement::kShared);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  const auto set = [&](const char* name, const graph::HostTensor& tensor) {
    EXPECT_TRUE((*runner)->Set(name, tensor).ok());
  };
  set("table", RandomTensor({DType::kF32, {50, 16}}, 1));
  set("w", RandomTensor({DType::kF32, {features, 4}}, 2));
  for (int step = 1; step <= 3; ++step) {
    graph::HostTensor ids = RandomTensor({DType::kI64, {8, 3}}, 10 + step, -50, 50);
    for (size_t i = 0; i < 9; ++i) ids.as<int64_t>()[i] = static_cast<int64_t>(i % 2);
    set("ids", ids);
    set("label", RandomTensor({DType::kI64, {8}}, 20 + step, 0, 4));
    set("ebb.hyper", FromDoubles({DType::kF64, {4}}, {0.1, static_cast<double>(step), 0, 0}));
    EXPECT_TRUE((*runner)->Run().ok());
  }
  TensorMap state;
  for (const graph::Value& value : lowered->values) {
    if (value.slot_of.valid() || value.name == "table")
      state[value.name] = (*runner)->Get(value.id);
  }
  return state;
}

TEST(SparseUpdate, MakesNoGradientOfTheTable) {
  const auto sparse = graph::BuildTrainingGraph(Forward(), Options(true));
  ASSERT_TRUE(sparse.ok()) << sparse.status();
  EXPECT_TRUE(graph::Verify(*sparse).ok()) << graph::Verify(*sparse);
  EXPECT_TRUE(Has(*sparse, "SparseRowwiseAdagradUpdate"));
  EXPECT_FALSE(Has(*sparse, "GatherGrad"));
  const auto dense = graph::BuildTrainingGraph(Forward(), Options(false));
  ASSERT_TRUE(dense.ok()) << dense.status();
  EXPECT_TRUE(Has(*dense, "RowwiseAdagradUpdate"));
  EXPECT_TRUE(Has(*dense, "GatherGrad"));
}

TEST(SparseUpdate, GivesTheBitsOfTheWholeGradient) {
  for (const std::string& device : TestDevices({"ref", "cpu"})) {
    const TensorMap sparse = Train(device, *graph::BuildTrainingGraph(Forward(), Options(true)));
    const TensorMap dense = Train(device, *graph::BuildTrainingGraph(Forward(), Options(false)));
    const auto first = RandomTensor({DType::kF32, {50, 16}}, 1);
    EXPECT_NE(sparse.at("table").data, first.data);
    // The reference adds up in double, the gradient of the whole table is float.
    const auto a = ToDoubles(sparse.at("table")), b = ToDoubles(dense.at("table"));
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-6) << device << " " << i;
    if (device != "ref") {
      EXPECT_EQ(sparse.at("table").data, dense.at("table").data);
      EXPECT_EQ(sparse.at("table/row_sum").data, dense.at("table/row_sum").data);
    }
  }
}

// Bags of a table: what the gradient of the sum or mean of each bag's rows would be.
TEST(SparseUpdate, GivesTheBitsOfTheWholeGradientOfBagsToo) {
  for (const char* mode : {"sum", "mean"}) {
    const auto forward = graph::ParseGraph(absl::StrCat(R"(
      ids = input i64[8,3]; table = param f32[50,16]; w = param f32[16,4]
      flat = Reshape(ids) {shape=[24]}; offsets = constant i64[8] 0 1 5 5 6 14 15 22
      e = EmbeddingBag(table, flat, offsets) {mode=")",
                                                        mode, R"("}
      scores = MatMul(e, w); output scores)"));
    ASSERT_TRUE(forward.ok()) << forward.status();
    const auto sparse = graph::BuildTrainingGraph(*forward, Options(true));
    const auto dense = graph::BuildTrainingGraph(*forward, Options(false));
    ASSERT_TRUE(sparse.ok() && dense.ok()) << sparse.status() << dense.status();
    EXPECT_FALSE(Has(*sparse, "EmbeddingBagGrad"));
    EXPECT_TRUE(Has(*dense, "EmbeddingBagGrad"));
    const TensorMap a = Train(TestDevice("cpu"), *sparse, 16);
    const TensorMap b = Train(TestDevice("cpu"), *dense, 16);
    EXPECT_EQ(a.at("table").data, b.at("table").data) << mode;
    EXPECT_EQ(a.at("table/row_sum").data, b.at("table/row_sum").data) << mode;
    const auto of_ref = ToDoubles(Train("ref", *sparse, 16).at("table"));
    const auto of_cpu = ToDoubles(a.at("table"));
    for (size_t i = 0; i < of_ref.size(); ++i) ASSERT_NEAR(of_ref[i], of_cpu[i], 1e-5) << i;
  }
}

TEST(SparseUpdate, OtherUsesOfTheTableNeedItsWholeGradient) {
  const std::string tied =
      "s = Transpose(table) {perm=[1,0]}\n r = ReduceSum(s) {axes=[0,1]}\n"
      "both = Add(scores, r)\noutput scores, both";
  auto forward = Forward(tied);
  auto options = Options(true);
  options.loss.output = "both";
  const auto graph = graph::BuildTrainingGraph(forward, options);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(Has(*graph, "RowwiseAdagradUpdate"));
  options.loss.output = "scores";
  options.clip.norm = 1;
  const auto clipped = graph::BuildTrainingGraph(Forward(), options);
  ASSERT_TRUE(clipped.ok()) << clipped.status();
  EXPECT_TRUE(Has(*clipped, "RowwiseAdagradUpdate"));
}

TEST(SparseUpdate, ParametersThatAreNoTablesAreRefusedByName) {
  graph::TrainingOptions options = Options(true);
  options.groups[0].pattern = "*";
  EXPECT_EQ(graph::BuildTrainingGraph(Forward(), options).status().message(),
            "rowwise_adagrad with sparse is for tables that the model looks rows up in; it does "
            "not in 'w'; match the tables alone by a group of the optimizer, or leave out sparse");
  options.groups[0].optimizer.sparse = false;
  EXPECT_TRUE(graph::BuildTrainingGraph(Forward(), options).ok());
  options.groups = {{"w", {.frozen = true}}, {"*", Options(true).groups[0].optimizer}};
  EXPECT_TRUE(graph::BuildTrainingGraph(Forward(), options).ok());
}

TEST(SparseUpdate, ScalarsHaveNoRows) {
  const auto forward =
      graph::ParseGraph("x = input f32[4,3]; s = param f32[]; y = Mul(x, s); output y");
  ASSERT_TRUE(forward.ok()) << forward.status();
  graph::TrainingOptions options;
  options.optimizer.kind = graph::OptimizerKind::kRowwiseAdagrad;
  EXPECT_EQ(
      graph::BuildTrainingGraph(*forward, options).status().message(),
      "row-wise Adagrad needs parameters with rows; 's' is f32[]; give it another optimizer by "
      "a group");
}

}  // namespace
}  // namespace ebb::testing
