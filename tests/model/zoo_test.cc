// The models of the zoo: their names, their size, their arithmetic, and that they can be trained.
#include "model/zoo/zoo.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "base/glob.h"
#include "graph/op.h"
#include "model/init.h"
#include "tests/model/zoo_table.h"

namespace ebb {
namespace {

using graph::Graph;
using graph::Node;
using graph::NumElements;
using graph::Phase;
using graph::Role;
using graph::Value;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ZooFigures;
using testing::ZooTable;

TEST(Zoo, ListsModelsThatTheTableHas) {
  std::vector<std::string> listed, wanted;
  for (const model::ZooEntry& entry : model::Zoo()) {
    listed.emplace_back(entry.name);
    EXPECT_FALSE(entry.about.empty()) << entry.name;
  }
  for (const ZooFigures& figures : ZooTable()) wanted.push_back(figures.name);
  EXPECT_EQ(listed, wanted);
}

TEST(Zoo, SaysWhatItHasWhenAskedForAnother) {
  const absl::Status status = model::BuildZooModel("resnet18", 4).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  for (const model::ZooEntry& entry : model::Zoo()) {
    EXPECT_THAT(status.ToString(), HasSubstr(std::string(entry.name)));
  }
}

TEST(Zoo, RefusesBatchesThatNoDeviceHolds) {
  for (const model::ZooEntry& entry : model::Zoo()) {
    for (const int64_t batch : {int64_t{0}, int64_t{-1}, model::kMaxZooBatch + 1}) {
      const absl::Status status = model::BuildZooModel(entry.name, batch).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << entry.name << " " << batch;
      EXPECT_THAT(status.ToString(), HasSubstr(std::string(entry.name)));
    }
    EXPECT_TRUE(model::BuildZooModel(entry.name, model::kMaxZooBatch).ok()) << entry.name;
  }
}

class ZooModel : public ::testing::TestWithParam<ZooFigures> {
 protected:
  Graph Training(int64_t batch) {
    auto graph = testing::ZooTrainingGraph(GetParam().name, batch);
    EXPECT_TRUE(graph.ok()) << graph.status();
    return graph.ok() ? *std::move(graph) : Graph();
  }
};

TEST_P(ZooModel, HasTheParametersThatItIsKnownFor) {
  const auto zoo = model::BuildZooModel(GetParam().name, 2);
  ASSERT_TRUE(zoo.ok()) << zoo.status();
  int64_t parameters = 0;
  for (const Value& value : zoo->graph.values) {
    if (value.role == Role::kParam) parameters += NumElements(value.type.shape);
  }
  EXPECT_EQ(parameters, GetParam().parameters);
}

TEST_P(ZooModel, TrainsAllOfItsParameters) {
  const Graph graph = Training(3);
  const absl::Status status = graph::Verify(graph);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(graph::ParamsWithoutGradient(graph), IsEmpty());
  const bool image = graph.Find("x").valid();
  EXPECT_EQ(std::any_of(graph.nodes.begin(), graph.nodes.end(),
                        [](const Node& node) { return node.op->name == "AdamUpdate"; }),
            !image);
}

TEST_P(ZooModel, CanBeEvaluated) {
  const auto zoo = model::BuildZooModel(GetParam().name, 2);
  ASSERT_TRUE(zoo.ok()) << zoo.status();
  const auto eval = graph::BuildEvalGraph(zoo->graph, {.loss = zoo->loss});
  ASSERT_TRUE(eval.ok()) << eval.status();
  for (const Node& node : eval->nodes) EXPECT_NE(node.op->name, "Dropout") << node.name;
}

bool IsProduct(const Node& node) {
  return absl::StartsWith(node.op->name, "Conv") || node.op->name == "MatMul" ||
         node.op->name == "Gemm";
}

// The study's figures count convolutions and matrix products and have two or three digits. What
// elementwise ops add is little, but for MobileNetV2, whose products are few.
TEST_P(ZooModel, DoesTheArithmeticThatItIsKnownFor) {
  constexpr int64_t kBatch = 16;
  const Graph graph = Training(kBatch);
  double products = 0, rest = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::kUpdate) continue;
    const double flops = static_cast<double>(graph::CostOf(graph, node).flops.count()) / kBatch;
    (IsProduct(node) ? products : rest) += flops;
  }
  EXPECT_NEAR(products / 1e9, GetParam().gflop, 0.015 * GetParam().gflop);
  EXPECT_GT(rest, 0.0005 * products);
  EXPECT_LT(rest, (GetParam().name == "mobilenet_v2" ? 0.1 : 0.03) * products);
}

// A step reads a value of this sample only through its own rows: twice the batch is twice the
// bytes.
TEST_P(ZooModel, GrowsWithTheBatchAndNothingElse) {
  const Graph one = Training(2), two = Training(4);
  ASSERT_EQ(one.nodes.size(), two.nodes.size());
  ASSERT_EQ(one.values.size(), two.values.size());
  for (size_t i = 0; i < one.values.size(); ++i) {
    const Value &a = one.values[i], &b = two.values[i];
    ASSERT_EQ(a.name, b.name);
    if (graph::IsResident(a.role) && a.name != "sample_starts") {
      EXPECT_EQ(a.type, b.type) << a.name;
    } else if (a.role == Role::kInput) {
      EXPECT_EQ(a.type.bytes() * 2, b.type.bytes()) << a.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ZooModel, ::testing::ValuesIn(ZooTable()),
                         [](const auto& info) { return info.param.name; });

bool AllZero(const graph::HostTensor& tensor) {
  const absl::Span<const float> values = tensor.as<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return value == 0; });
}

// The rules that draw weights know the place of each in its model: none is left at zero but the
// biases of normalisations and of the output layer that is tied to an embedding. (Of the
// transformers a part, to save time.)
TEST(ZooReinit, DrawsEveryKindOfParameter) {
  for (const auto& [name, patterns] :
       {std::pair("mobilenet_v2", std::vector<std::string>{"*"}),
        {"gpt2", {"*.wpe.weight", "*.h.0.*", "*.ln_f.*"}},
        {"bert_base_128", {"*.token_type*", "*.position_*", "*.layer.3.*", "cls.predictions.*"}}}) {
    const auto zoo = model::BuildZooModel(name, 1);
    ASSERT_TRUE(zoo.ok()) << zoo.status();
    std::vector<model::ReinitRule> rules;
    for (const std::string& pattern : patterns) rules.push_back({pattern, "default"});
    graph::TensorMap weights;
    ASSERT_TRUE(model::Reinitialize(zoo->graph, rules, 1, &weights).ok());
    int drawn = 0;
    for (const Node& node : zoo->graph.nodes) {
      const bool norm = absl::EndsWith(node.op->name, "Norm");
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const Value& value = zoo->graph.value(node.inputs[i]);
        const bool named = std::any_of(patterns.begin(), patterns.end(), [&](const auto& pattern) {
          return GlobMatch(pattern, value.name);
        });
        const bool zero = (norm && i == 2) || value.name == "cls.predictions.bias";
        if (value.role != Role::kParam || !named || zero) continue;
        EXPECT_FALSE(AllZero(weights.at(value.name))) << value.name;
        ++drawn;
      }
    }
    EXPECT_GE(drawn, 10) << name;
  }
}

}  // namespace
}  // namespace ebb
