// Initial weights: bounds by the layer's fans, one stream a parameter, rules that must match.
#include "model/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "graph/text.h"
#include "tests/model/onnx_builder.h"
#include "tests/testing/run_graph.h"

namespace ebb {
namespace {

using graph::DType;
using graph::Graph;
using graph::Role;
using graph::TensorMap;
using model::ReinitRule;
using ::testing::Each;
using ::testing::HasSubstr;

using Ints = std::vector<int64_t>;

// Conv 2->8 3x3 in 2 groups, BatchNorm, a Gemm of each orientation, MatMul with a bias, an
// embedding, layer normalisation.
model::ImportedModel Net() {
  testing::OnnxBuilder b;
  b.Input("x", {testing::kDynamic, 4, 6, 6}).Input("ids", {testing::kDynamic, 5}, DType::kI64);
  b.Ramp("conv.weight", {8, 2, 3, 3}).Ramp("conv.bias", {8});
  b.Ramp("bn.weight", {8}).Ramp("bn.bias", {8}).Ramp("bn.mean", {8}).Ramp("bn.var", {8});
  b.Ramp("fc.weight", {50, 128}).Ramp("fc.bias", {50}).Ramp("out.weight", {50, 20});
  b.Ramp("emb.weight", {100, 30}).Ramp("head.weight", {30, 20}).Ramp("head.bias", {20});
  b.Node("Conv", {"x", "conv.weight", "conv.bias"}, {"c"}).With("group", 2);
  b.Node("BatchNormalization", {"c", "bn.weight", "bn.bias", "bn.mean", "bn.var"}, {"n"});
  b.Node("Flatten", {"n"}, {"f"});
  b.Node("Gemm", {"f", "fc.weight", "fc.bias"}, {"h"}).With("transB", 1);
  b.Node("Gemm", {"h", "out.weight"}, {"y"});
  b.Node("Gather", {"emb.weight", "ids"}, {"e"}).Node("MatMul", {"e", "head.weight"}, {"m"});
  b.Ramp("ln.weight", {20}).Ramp("ln.bias", {20});
  b.Node("Add", {"m", "head.bias"}, {"a"});
  b.Node("LayerNormalization", {"a", "ln.weight", "ln.bias"}, {"z"}).Output("y").Output("z");
  model::ImportOptions options;
  options.batch_size = 2;
  auto imported = b.Import(options);
  EXPECT_TRUE(imported.ok()) << imported.status();
  return *std::move(imported);
}

TensorMap Drawn(const std::vector<ReinitRule>& rules, uint64_t seed = 3) {
  model::ImportedModel net = Net();
  const absl::Status status = model::Reinitialize(net.graph, rules, seed, &net.weights);
  EXPECT_TRUE(status.ok()) << status;
  return std::move(net.weights);
}

struct Statistics {
  double largest = 0, mean = 0, deviation = 0;
};

Statistics Of(const TensorMap& weights, const std::string& name) {
  const std::vector<double> values = testing::ToDoubles(weights.at(name));
  Statistics s;
  double squares = 0;
  for (double value : values) {
    s.largest = std::max(s.largest, std::fabs(value));
    s.mean += value / static_cast<double>(values.size());
    squares += value * value / static_cast<double>(values.size());
  }
  s.deviation = std::sqrt(squares - s.mean * s.mean);
  return s;
}

// Uniform in [-bound, bound]: fills it, and no more.
void ExpectUniform(const TensorMap& weights, const std::string& name, double bound) {
  const Statistics s = Of(weights, name);
  EXPECT_LE(s.largest, bound * (1 + 1e-6)) << name;
  EXPECT_GE(s.largest, bound * 0.7) << name;
  const auto count = static_cast<double>(graph::NumElements(weights.at(name).type.shape));
  const double sigma = bound / std::sqrt(3.0);
  EXPECT_NEAR(s.mean, 0, 4 * sigma / std::sqrt(count)) << name;
  EXPECT_NEAR(s.deviation, sigma, 4 * sigma / std::sqrt(count)) << name;
}

TEST(Reinitialize, DefaultDrawsWithinOneOverTheRootOfTheFanIn) {
  const TensorMap weights = Drawn({{"*", "default"}});
  ExpectUniform(weights, "conv.weight", 1 / std::sqrt(18.0));  // 2 channels a group, 3 x 3
  ExpectUniform(weights, "conv.bias", 1 / std::sqrt(18.0));
  ExpectUniform(weights, "fc.weight", 1 / std::sqrt(128.0));  // [out, in], transposed
  ExpectUniform(weights, "fc.bias", 1 / std::sqrt(128.0));
  ExpectUniform(weights, "out.weight", 1 / std::sqrt(50.0));  // [in, out]
  ExpectUniform(weights, "head.weight", 1 / std::sqrt(30.0));
  ExpectUniform(weights, "head.bias", 1 / std::sqrt(30.0));  // an Add after the MatMul
}

TEST(Reinitialize, DefaultResetsNormalisationAndDrawsEmbeddingsFromANormal) {
  const TensorMap weights = Drawn({{"*", "default"}});
  EXPECT_THAT(testing::ToDoubles(weights.at("bn.weight")), Each(1));
  EXPECT_THAT(testing::ToDoubles(weights.at("bn.bias")), Each(0));
  EXPECT_THAT(testing::ToDoubles(weights.at("ln.weight")), Each(1));
  EXPECT_THAT(testing::ToDoubles(weights.at("ln.bias")), Each(0));
  EXPECT_THAT(testing::ToDoubles(weights.at("bn.mean")), Each(0));
  EXPECT_THAT(testing::ToDoubles(weights.at("bn.var")), Each(1));
  const Statistics embedding = Of(weights, "emb.weight");
  EXPECT_NEAR(embedding.mean, 0, 0.08);
  EXPECT_NEAR(embedding.deviation, 1, 0.06);
  EXPECT_GT(embedding.largest, 2.5);
}

TEST(Reinitialize, NamedSchemesUseTheFansOfTheLayer) {
  ExpectUniform(Drawn({{"fc.*", "kaiming_uniform"}}), "fc.weight", std::sqrt(6 / 128.0));
  ExpectUniform(Drawn({{"out.*", "xavier_uniform"}}), "out.weight", std::sqrt(6 / 70.0));
  ExpectUniform(Drawn({{"conv.*", "xavier_uniform"}}), "conv.weight", std::sqrt(6 / (18 + 72.0)));
  EXPECT_NEAR(Of(Drawn({{"fc.*", "kaiming_normal"}}), "fc.weight").deviation, std::sqrt(2 / 128.0),
              0.003);
  EXPECT_NEAR(Of(Drawn({{"fc.*", "xavier_normal"}}), "fc.weight").deviation, std::sqrt(2 / 178.0),
              0.003);
  EXPECT_NEAR(Of(Drawn({{"fc.*", "normal:0.02"}}), "fc.weight").deviation, 0.02, 0.0006);
  EXPECT_THAT(testing::ToDoubles(Drawn({{"fc.bias", "zeros"}}).at("fc.bias")), Each(0));
  EXPECT_THAT(testing::ToDoubles(Drawn({{"fc.bias", "ones"}}).at("fc.bias")), Each(1));
}

TEST(Reinitialize, ChangesOnlyWhatMatchesAndTheLastRuleWins) {
  const TensorMap before = Net().weights;
  const TensorMap after = Drawn({{"fc.*", "ones"}, {"*.bias", "zeros"}});
  EXPECT_EQ(after.at("conv.weight").data, before.at("conv.weight").data);
  EXPECT_THAT(testing::ToDoubles(after.at("fc.weight")), Each(1));
  EXPECT_THAT(testing::ToDoubles(after.at("fc.bias")), Each(0));
}

TEST(Reinitialize, GivesTheSameBitsForTheSameSeedAndOthersForAnother) {
  const std::vector<ReinitRule> rules = {{"*", "default"}};
  const TensorMap a = Drawn(rules, 11), b = Drawn(rules, 11), c = Drawn(rules, 12);
  for (const auto& [name, tensor] : a) EXPECT_EQ(tensor.data, b.at(name).data) << name;
  EXPECT_NE(a.at("fc.weight").data, c.at("fc.weight").data);
}

TEST(Reinitialize, DrawsDependOnTheNameNotOnTheOtherParameters) {
  const TensorMap all = Drawn({{"*", "default"}});
  const TensorMap one = Drawn({{"out.weight", "default"}});
  EXPECT_EQ(all.at("out.weight").data, one.at("out.weight").data);
  // Two parameters of one shape and scheme get different draws.
  const auto graph = graph::ParseGraph(
      "x = input f32[2,3]; a = param f32[3,3]; b = param f32[3,3]\n"
      "h = MatMul(x, a); y = MatMul(h, b); output y");
  ASSERT_TRUE(graph.ok()) << graph.status();
  TensorMap weights;  // a graph that came without weights
  ASSERT_TRUE(model::Reinitialize(*graph, {{"*", "default"}}, 1, &weights).ok());
  EXPECT_NE(weights.at("a").data, weights.at("b").data);
}

TEST(Reinitialize, RefusesRulesThatMatchNothingOrSayNothing) {
  model::ImportedModel net = Net();
  const TensorMap before = net.weights;
  const auto error = [&](const ReinitRule& rule) {
    const absl::Status status =
        model::Reinitialize(net.graph, {{"fc.*", "zeros"}, rule}, 1, &net.weights);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_THAT(error({"layer4.*", "default"}), HasSubstr("'layer4.*' matches no parameter"));
  EXPECT_THAT(error({"x", "default"}), HasSubstr("matches no parameter"));  // an input
  EXPECT_THAT(error({"*", "orthogonal"}), HasSubstr("unknown reinit scheme 'orthogonal'"));
  for (const char* scheme : {"normal:", "normal:-1", "normal:nan", "normal:1x"}) {
    EXPECT_THAT(error({"*", scheme}), HasSubstr("must be a number >= 0"));
  }
  for (const auto& [name, tensor] : before) {
    EXPECT_EQ(net.weights.at(name).data, tensor.data) << name << " was changed by a refused rule";
  }
}

}  // namespace
}  // namespace ebb
