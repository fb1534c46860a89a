#include "graph/freeze.h"

#include <gmock/gmock.h>

#include "absl/strings/match.h"
#include "tests/graph/training_graphs.h"

namespace ebb::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kTwo[] = R"(
  x = input f32[4,8]; w = param f32[8,3]
  stem.bn.weight = param f32[8]; stem.bn.bias = param f32[8]
  stem.bn.running_mean = buffer f32[8]; stem.bn.running_var = buffer f32[8]
  head.bn.weight = param f32[3]; head.bn.bias = param f32[3]
  head.bn.running_mean = buffer f32[3]; head.bn.running_var = buffer f32[3]
  a, am, av = BatchNorm(x, stem.bn.weight, stem.bn.bias, stem.bn.running_mean, stem.bn.running_var) {epsilon=0.01}
  h = MatMul(a, w)
  y, ym, yv = BatchNorm(h, head.bn.weight, head.bn.bias, head.bn.running_mean, head.bn.running_var)
  output y
)";

std::vector<std::string> Norms(const Graph& graph) {
  std::vector<std::string> norms;
  for (const Node& node : graph.nodes) {
    if (absl::StartsWith(node.op->name, "BatchNorm")) norms.emplace_back(node.op->name);
  }
  return norms;
}

TEST(FreezeStatistics, OfTheLayersThatAGlobNames) {
  for (const char* glob : {"stem.*", "stem.bn", "stem.bn.weight", "a"}) {
    const auto frozen = FreezeStatistics(Parse(kTwo), {glob});
    ASSERT_TRUE(frozen.ok()) << frozen.status();
    EXPECT_TRUE(Verify(*frozen).ok()) << Verify(*frozen);
    EXPECT_THAT(Norms(*frozen), ElementsAre("BatchNormInference", "BatchNorm")) << glob;
    EXPECT_EQ(frozen->nodes[0].attrs.Float("epsilon", 0), 0.01);
    ASSERT_EQ(frozen->outputs.size(), 1u);
    EXPECT_EQ(frozen->value(frozen->outputs[0]).name, "y");
    // Its scale and bias are trained all the same.
    const auto training = BuildTrainingGraph(*frozen, {});
    ASSERT_TRUE(training.ok()) << training.status();
    EXPECT_THAT(ParamsWithoutGradient(*training), ElementsAre());
  }
  EXPECT_THAT(Norms(*FreezeStatistics(Parse(kTwo), {"stem.*", "head.*"})),
              ElementsAre("BatchNormInference", "BatchNormInference"));
}

TEST(FreezeStatistics, AGlobThatNamesNothingIsRefusedWithWhatThereIs) {
  const auto message = [](absl::string_view text, const std::string& glob) {
    return std::string(FreezeStatistics(Parse(text), {"*", glob}).status().message());
  };
  EXPECT_THAT(message(kTwo, "layer1.*"),
              HasSubstr("'layer1.*' names no batch norm that is trained with statistics of the "
                        "batch; there is stem.bn, head.bn"));
  EXPECT_THAT(message("x = input f32[4,8]; w = param f32[8,3]; y = MatMul(x, w); output y", "*"),
              HasSubstr("the model has none"));
}

}  // namespace
}  // namespace ebb::graph
