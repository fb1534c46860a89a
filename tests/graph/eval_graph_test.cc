// Evaluation graphs, and gradients that are asked for by name, by their structure.
#include <gmock/gmock.h>

#include "tests/graph/training_graphs.h"

namespace ebb::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr absl::string_view kNormalised = R"(
  x = input f32[4,8]; ebb.rng = scalar i64[2]; w = param f32[8,3]
  s = param f32[8]; b = param f32[8]; rm = buffer f32[8]; rv = buffer f32[8]
  n, mean, var = BatchNorm(x, s, b, rm, rv) {epsilon=0.001, momentum=0.2}
  d, mask = Dropout(n, ebb.rng) {ratio=0.5, stream=1}
  y = MatMul(d, w)
  output y
)";

TEST(EvalGraph, NormalisesByRunningStatisticsAndDropsNothingOut) {
  const Graph graph = Eval(kNormalised);
  EXPECT_THAT(OpNames(graph), ElementsAre("BatchNormInference", "MatMul", "CrossEntropySum"));
  EXPECT_EQ(graph.nodes[0].attrs.Float("epsilon", 0), 0.001);
  EXPECT_EQ(graph.nodes[0].inputs[3], graph.Find("rm"));
  EXPECT_EQ(graph.nodes[1].inputs[0], graph.nodes[0].outputs[0]);
  EXPECT_FALSE(graph.Find("ebb.rng").valid());
  EXPECT_TRUE(NodesOf(Train(kNormalised), "Dropout").size() == 1);
}

TEST(EvalGraph, SharesParametersAndBuffersByNameWithTheTrainingGraph) {
  const Graph train = Train(kNormalised);
  const Graph eval = Eval(kNormalised);
  for (const Value& value : eval.values) {
    if (value.role != Role::kParam && value.role != Role::kBuffer) continue;
    const ValueId other = train.Find(value.name);
    ASSERT_TRUE(other.valid()) << value.name;
    EXPECT_EQ(train.value(other).role, value.role);
    EXPECT_EQ(train.value(other).type, value.type);
  }
}

TEST(EvalGraph, MetricsAreSumsOverTheValidRows) {
  TrainingOptions options;
  options.metrics = {{MetricKind::kLoss}, {MetricKind::kTopK, 2}};
  options.loss.label_smoothing = 0.1;
  const Graph graph = Eval(kMlp, options);
  const ValueId valid = graph.Find("ebb.valid");
  ASSERT_TRUE(valid.valid());
  EXPECT_EQ(graph.value(valid).role, Role::kInput);
  EXPECT_EQ(ToString(graph.value(valid).type), "i64[1]");
  const Node* loss = NodesOf(graph, "CrossEntropySum").at(0);
  EXPECT_EQ(loss->attrs.Float("label_smoothing", 0), 0.1);
  EXPECT_EQ(loss->inputs[2], valid);
  EXPECT_EQ(NodesOf(graph, "TopKCorrect").at(0)->inputs[2], valid);
  EXPECT_EQ(graph.value(loss->outputs[0]).name, "metric/loss.sum");
  EXPECT_EQ(graph.value(loss->outputs[1]).name, "metric/loss.count");
  EXPECT_TRUE(graph.Find("metric/top2.count").valid());
}

TEST(EvalGraph, TheOtherLossesAreSummedToo) {
  TrainingOptions options;
  options.loss.kind = LossKind::kMse;
  EXPECT_EQ(NodesOf(Eval(kMlp, options), "MseSum").size(), 1u);
  options.loss.kind = LossKind::kBceWithLogits;
  EXPECT_EQ(NodesOf(Eval(kMlp, options), "BceSum").size(), 1u);
  const Graph graph =
      Eval("w = param f32[4]; l = ReduceSum(w) {axes=[0], keepdims=0}; output l", GraphLoss());
  EXPECT_TRUE(graph.Find("metric/loss").valid());
  EXPECT_FALSE(graph.Find("ebb.valid").valid());
}

TEST(EvalGraph, RefusesAModelThatReadsWhatOnlyTrainingHas) {
  const absl::StatusOr<Graph> graph = BuildEvalGraph(Parse(R"(
    x = input f32[4,8]; s = param f32[8]; b = param f32[8]; rm = buffer f32[8]; rv = buffer f32[8]
    n, mean, var = BatchNorm(x, s, b, rm, rv); y = Mul(n, mean); output y)"),
                                                     {});
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("'mean', which does not exist in evaluation"));
}

TEST(Differentiate, ReturnsTheGradientsThatWereAskedFor) {
  Graph forward = Parse(R"(
    x = input f32[4]; y = input f32[4]; z = input f32[4]; i = input i64[4]
    m = Mul(x, y); r = Relu(m); l = ReduceSum(r) {axes=[0], keepdims=0}
  )");
  const ValueId x = forward.Find("x");
  const ValueId m = forward.Find("m");
  const ValueId l = forward.Find("l");
  const std::vector<ValueId> wrt = {x, forward.Find("z"), m, l, forward.Find("i")};
  const absl::StatusOr<Gradients> result = Differentiate(forward, l, wrt);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(Verify(result->graph).ok()) << Verify(result->graph);
  EXPECT_TRUE(result->grads[0].valid());
  EXPECT_FALSE(result->grads[1].valid()) << "independent";
  EXPECT_TRUE(result->grads[2].valid());
  EXPECT_EQ(result->graph.value(result->grads[3]).role, Role::kConstant) << "dl/dl is 1";
  EXPECT_FALSE(result->grads[4].valid()) << "an integer";
  EXPECT_EQ(result->graph.value(x).name, "x");
  EXPECT_EQ(result->graph.value(result->grads[0]).type, forward.value(x).type);
}

TEST(Differentiate, StopsAtTheValuesThatWereAskedFor) {
  Graph forward =
      Parse("x = input f32[4]; s = TanhGrad(x, x); r = Relu(s); l = ReduceSum(r) {axes=[0]}");
  EXPECT_TRUE(Differentiate(forward, forward.Find("l"), {forward.Find("s")}).ok());
  EXPECT_FALSE(Differentiate(forward, forward.Find("l"), {forward.Find("x")}).ok());
}

}  // namespace
}  // namespace ebb::graph
