// Training graphs by their structure: order, sums of gradients, updates, metrics. What the
// gradients are worth is tested where there are kernels.
#include "graph/training.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/graph/training_graphs.h"

namespace ebb::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TrainingGraph, HasTheOrderThatItsHeaderPromises) {
  TrainingOptions options;
  options.metrics = {{MetricKind::kLoss}, {MetricKind::kAccuracy}};
  const Graph graph = Train(kMlp, options);
  std::vector<std::string> phases;
  for (const Node& node : graph.nodes) {
    if (phases.empty() || phases.back() != Name(node.phase)) phases.emplace_back(Name(node.phase));
  }
  // w2 and b2 are updated before the gradients of the layer below are begun.
  EXPECT_THAT(phases, ElementsAre("forward", "loss", "backward", "update", "backward", "update"));
  EXPECT_LT(UpdateOf(graph, "w2")->id, UpdateOf(graph, "w1")->id);
  EXPECT_LT(UpdateOf(graph, "w2")->id, NodesOf(graph, "ReluGrad")[0]->id);
  EXPECT_THAT(graph.outputs, IsEmpty());
}

TEST(TrainingGraph, MirrorsLeadToTheForwardNodeThatIsDifferentiated) {
  const Graph graph = Train(kMlp);
  const auto mirror = [&](const Node* node) { return graph.node(node->mirror).name; };
  EXPECT_EQ(mirror(NodesOf(graph, "ReluGrad")[0]), "r");
  EXPECT_EQ(mirror(NodesOf(graph, "CrossEntropyGrad")[0]), "loss");
  EXPECT_EQ(mirror(UpdateOf(graph, "w2")), "y");
  EXPECT_EQ(mirror(UpdateOf(graph, "b1")), "h");
}

TEST(TrainingGraph, ComputesNoGradientOfTheBatch) {
  const Graph graph = Train("x = input f32[4,8]; w = param f32[8,3]; y = MatMul(x, w); output y");
  EXPECT_THAT(OpNames(graph),
              ElementsAre("MatMul", "CrossEntropy", "CrossEntropyGrad", "MatMul", "SgdUpdate"));
}

TEST(TrainingGraph, AddsTheTargetAndTheHyperParameters) {
  const Graph graph = Train(kMlp);
  EXPECT_EQ(ToString(graph.value(graph.Find("label")).type), "i64[4]");
  EXPECT_EQ(graph.value(graph.Find("label")).role, Role::kInput);
  EXPECT_EQ(ToString(graph.value(graph.Find("ebb.hyper")).type), "f64[4]");
  EXPECT_EQ(graph.value(graph.Find("ebb.hyper")).role, Role::kScalar);
  EXPECT_EQ(graph.value(graph.Find("metric/loss")).role, Role::kMetric);
  EXPECT_FALSE(graph.Find("ebb.rng").valid());
}

TEST(TrainingGraph, DropsDeadNodesAndWhatOnlyTheyRead) {
  const Graph graph = Train(R"(
    x = input f32[4,8]; rng = scalar i64[2]; c = constant f32[1] 2
    w = param f32[8,3]; u = param f32[8,5]; rm = buffer f32[8]; rv = buffer f32[8]
    s = param f32[8]; b = param f32[8]
    d, mask = Dropout(x, rng) {ratio=0.5, stream=1}
    n, mean, var = BatchNorm(x, s, b, rm, rv)
    m = Mul(d, c)
    aux = MatMul(n, u)
    y = MatMul(x, w)
    output y
  )");
  EXPECT_THAT(NodesOf(graph, "Dropout"), IsEmpty());
  EXPECT_THAT(NodesOf(graph, "BatchNorm"), IsEmpty());
  EXPECT_FALSE(graph.Find("c").valid());
  EXPECT_FALSE(graph.Find("rng").valid());
  EXPECT_TRUE(graph.Find("u").valid()) << "a parameter is part of the model, used or not";
  EXPECT_THAT(ParamsWithoutGradient(graph), ElementsAre("u", "s", "b"));
}

TEST(TrainingGraph, KeepsABatchNormWhoseResultIsUsed) {
  const Graph graph = Train(R"(
    x = input f32[4,8]; w = param f32[8,3]
    s = param f32[8]; b = param f32[8]; rm = buffer f32[8]; rv = buffer f32[8]
    n, mean, var = BatchNorm(x, s, b, rm, rv) {momentum=0.1}
    y = MatMul(n, w); output y
  )");
  const Node* grad = NodesOf(graph, "BatchNormGrad").at(0);
  EXPECT_EQ(grad->inputs[3], graph.Find("mean"));
  EXPECT_NE(UpdateOf(graph, "s"), nullptr);
}

TEST(TrainingGraph, SumsTheGradientsOfASharedWeightInTheOrderOfItsUses) {
  const Graph graph = Train(R"(
    x = input f32[4,4]; w = param f32[4,4]
    a = MatMul(x, w); b = Relu(a); c = MatMul(b, w); d = Relu(c); y = MatMul(d, w); output y
  )");
  const std::vector<const Node*> sums = NodesOf(graph, "AddN");
  ASSERT_EQ(sums.size(), 1u);
  std::vector<std::string> order;
  for (ValueId term : sums[0]->inputs) {
    order.push_back(graph.node(graph.node(graph.value(term).producer).mirror).name);
  }
  EXPECT_THAT(order, ElementsAre("a", "c", "y"));
  EXPECT_EQ(graph.node(sums[0]->mirror).name, "a");
  ASSERT_NE(UpdateOf(graph, "w"), nullptr);
  EXPECT_EQ(UpdateOf(graph, "w")->id.value() + 1, static_cast<int>(graph.nodes.size()));
}

TEST(TrainingGraph, AnOperandUsedTwiceByOneNodeGetsBothShares) {
  const Graph graph =
      Train("w = param f32[4]; m = Mul(w, w); l = ReduceSum(m) {axes=[0]}; output l", GraphLoss());
  EXPECT_EQ(NodesOf(graph, "AddN").at(0)->inputs.size(), 2u);
  EXPECT_EQ(NodesOf(graph, "SgdUpdate").size(), 1u);
}

TEST(TrainingGraph, ASharedActivationIsSummedBeforeItsProducerIsDifferentiated) {
  const Graph graph = Train(R"(
    x = input f32[4,4]; w = param f32[4,4]
    a = MatMul(x, w); t = Tanh(a); r = Relu(a); y = Add(t, r); output y
  )");
  const Node* sum = NodesOf(graph, "AddN").at(0);
  EXPECT_EQ(graph.node(sum->mirror).name, "t");
  EXPECT_EQ(UpdateOf(graph, "w")->inputs[1],
            graph.nodes[static_cast<size_t>(UpdateOf(graph, "w")->id.value()) - 1].outputs[0]);
}

// Conv's input gradient reads the weight, which a view of it and a second use read too.
TEST(TrainingGraph, UpdatesNoParameterBeforeItsLastRead) {
  const Graph graph = Train(R"(
    x = input f32[2,3,8,8]; w = param f32[3,3,3,3]; v = param f32[3,3,3,3]
    flat = Reshape(v) {shape=[27,3]}; b = param f32[3]
    h = Conv(x, w, b) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}
    r = Relu(h)
    k = Conv(r, v) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}
    g = Conv(k, w, b) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}
    p = ReduceMean(g) {axes=[2,3], keepdims=0}
    q = MatMul(flat, p) {trans_b=1}
    l = ReduceMean(q) {axes=[0,1], keepdims=0}
    output l
  )",
                            GraphLoss());
  // Train() has verified that nothing reads a parameter after its update; here, that it could have.
  EXPECT_THAT(ParamsWithoutGradient(graph), IsEmpty());
  for (absl::string_view param : {"w", "v", "b"}) {
    const Node* update = UpdateOf(graph, param);
    ASSERT_NE(update, nullptr);
    EXPECT_GT(update->id, graph.value(update->inputs[1]).producer);
  }
  EXPECT_EQ(NodesOf(graph, "ConvGradInput").size(), 2u);
}

TEST(TrainingGraph, ClippingByNormPutsUpdatesOffUntilAllGradientsAreThere) {
  TrainingOptions options;
  options.clip.norm = 1.0;
  const Graph graph = Train(kMlp, options);
  const Node* factor = NodesOf(graph, "ClipFactor").at(0);
  EXPECT_EQ(factor->inputs.size(), 4u);
  std::vector<std::string> after;
  for (const Node& node : graph.nodes) {
    if (node.id > factor->id) after.emplace_back(node.op->name);
    EXPECT_EQ(node.phase == Phase::kUpdate, node.id >= factor->id) << node.name;
  }
  EXPECT_THAT(after, ElementsAre("Mul", "SgdUpdate", "Mul", "SgdUpdate", "Mul", "SgdUpdate", "Mul",
                                 "SgdUpdate"));
  // Each keeps the mirror that it would have had: they are cut as backward is.
  EXPECT_EQ(graph.node(UpdateOf(graph, "w2")->mirror).name, "y");
  EXPECT_EQ(graph.node(UpdateOf(graph, "b1")->mirror).name, "h");
}

TEST(TrainingGraph, ClippingByValueLeavesUpdatesWhereTheyAre) {
  TrainingOptions options;
  options.clip.value = 0.5;
  const Graph graph = Train(kMlp, options);
  EXPECT_EQ(NodesOf(graph, "Clip").size(), 4u);
  EXPECT_LT(UpdateOf(graph, "w2")->id, NodesOf(graph, "ReluGrad")[0]->id);
  const Node& clip = graph.node(graph.value(UpdateOf(graph, "w1")->inputs[1]).producer);
  EXPECT_EQ(clip.op->name, "Clip");
  EXPECT_EQ(clip.attrs.Float("min", 0), -0.5);
  EXPECT_EQ(clip.attrs.Float("max", 0), 0.5);
}

TEST(TrainingGraph, EveryTrainedParameterMayHaveAnAverageThatEvaluationReads) {
  TrainingOptions options;
  options.ema_decay = 0.9;
  options.groups = {{"b1", {.frozen = true}}};
  const Graph training = Train(kMlp, options);
  const Node* update = UpdateOf(training, "w1");
  EXPECT_EQ(training.value(update->inputs.at(4)).name, "w1/ema");
  EXPECT_EQ(update->attrs.Float("ema_decay", 0), 0.9);
  EXPECT_FALSE(training.Find("b1/ema").valid());
  Graph eval = Eval(kMlp, options);
  ReadAverages(training, &eval);
  EXPECT_TRUE(Verify(eval).ok()) << Verify(eval);
  const std::vector<const Node*> layers = NodesOf(eval, "Gemm");
  EXPECT_EQ(eval.value(layers.at(0)->inputs[1]).name, "w1/ema");
  EXPECT_EQ(eval.value(layers.at(0)->inputs[2]).name, "b1");
  EXPECT_EQ(eval.value(layers.at(1)->inputs[2]).name, "b2/ema");
  for (const double decay : {-0.1, 1.0, double{NAN}}) {
    options.ema_decay = decay;
    EXPECT_THAT(Refusal(kMlp, options), HasSubstr("is not in [0,1)"));
  }
}

TEST(TrainingGraph, RefusesClippingThatMakesNoSense) {
  TrainingOptions options;
  options.clip = {.norm = 1.0, .value = 1.0};
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("give one of the two"));
  for (const double limit : {0.0, -1.0, double{INFINITY}, double{NAN}}) {
    options.clip = {.norm = limit};
    EXPECT_THAT(Refusal(kMlp, options), HasSubstr("clipped by norm")) << limit;
    options.clip = {.value = limit};
    EXPECT_THAT(Refusal(kMlp, options), HasSubstr("clipped by value")) << limit;
  }
}

TEST(TrainingGraph, FrozenParametersGetNoGradientAndNoSlots) {
  TrainingOptions options;
  options.optimizer.momentum = 0.9;
  OptimizerSpec frozen;
  frozen.frozen = true;
  options.groups = {{"?1", frozen}};
  const Graph graph = Train(kMlp, options);
  EXPECT_THAT(ParamsWithoutGradient(graph), ElementsAre("w1", "b1"));
  EXPECT_THAT(NodesOf(graph, "ReluGrad"), IsEmpty()) << "nothing below needs a gradient";
  EXPECT_TRUE(graph.Find("w2/velocity").valid());
  EXPECT_FALSE(graph.Find("w1/velocity").valid());
}

TEST(TrainingGraph, TheFirstMatchingGroupWins) {
  TrainingOptions options;
  OptimizerSpec adam;
  adam.kind = OptimizerKind::kAdamW;
  adam.weight_decay = 0.01;
  OptimizerSpec sgd;
  sgd.lr_scale = 0.1;
  options.groups = {{"w*", adam}, {"*", sgd}};
  const Graph graph = Train(kMlp, options);
  const Node* w = UpdateOf(graph, "w1");
  EXPECT_EQ(w->op->name, "AdamUpdate");
  EXPECT_EQ(w->attrs.Int("decoupled", 0), 1);
  EXPECT_EQ(w->attrs.Float("weight_decay", 0), 0.01);
  EXPECT_EQ(graph.value(w->inputs[3]).name, "w1/adam_m");
  EXPECT_EQ(graph.value(w->inputs[4]).name, "w1/adam_v");
  EXPECT_EQ(graph.value(w->inputs[3]).slot_of, graph.Find("w1"));
  const Node* b = UpdateOf(graph, "b1");
  EXPECT_EQ(b->op->name, "SgdUpdate");
  EXPECT_EQ(b->attrs.Float("lr_scale", 1), 0.1);
  EXPECT_EQ(b->inputs.size(), 3u) << "no momentum, no velocity";
}

TEST(TrainingGraph, RefusesOptionsThatContradictTheModelOrThemselves) {
  TrainingOptions options;
  options.groups = {{"conv*", {}}};
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("'conv*' matches no parameter"));
  options = {};
  options.optimizer.nesterov = true;
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("nesterov"));
  options = {};
  options.optimizer.weight_decay = std::nan("");
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("weight_decay"));
  options = {};
  options.optimizer.frozen = true;
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("nothing is trained"));
  options = {};
  options.loss.output = "z";
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("no output of the model; it has: 'y'"));
  options = {};
  options.loss.target = "w1";
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("must be an input i64[4]"));
  options = {};
  options.metrics = {{MetricKind::kMse}};
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("metric 'mse' needs"));
  options = GraphLoss();
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("must be one floating-point number"));
  options.metrics = {{MetricKind::kAccuracy}};
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("metric 'accuracy' needs"));
  options = {};
  options.metrics = {{MetricKind::kTopK, 2}, {MetricKind::kAccuracy}, {MetricKind::kTopK, 2}};
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("metrics: 'top2' is named twice; remove one"));
  options.metrics = {{MetricKind::kTopK, 99}};
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("'top99' asks for the 99 best of 'y', which has"));
  options = {};
  options.loss.kind = LossKind::kMse;
  options.loss.label_smoothing = 0.1;
  EXPECT_THAT(Refusal(kMlp, options), HasSubstr("label_smoothing"));
  EXPECT_THAT(Refusal("x = input f32[4]; w = param f32[4]; y = Mul(x, w); output y", {}),
              HasSubstr("logits [N,C,...]"));
  EXPECT_THAT(Refusal("x = input f32[4,2]; y = Relu(x); z = Exp(x); output y, z", {}),
              HasSubstr("2 outputs; say which one the loss reads: 'y', 'z'"));
  EXPECT_THAT(Refusal("x = input f32[4,2]; y = Relu(x); output y", {}),
              HasSubstr("nothing is trained"));
}

TEST(TrainingGraph, RefusesALossThatReadsAConstant) {
  constexpr absl::string_view kConstantOutput =
      "x = input f32[4,3]; w = param f32[3]; y = Mul(x, w); c = constant f32[4,3] 0\n"
      "output y; output c";
  TrainingOptions options;
  options.loss.output = "c";
  for (LossKind kind : {LossKind::kCrossEntropy, LossKind::kMse, LossKind::kGraphOutput}) {
    options.loss.kind = kind;
    EXPECT_THAT(Refusal(kConstantOutput, options), HasSubstr("the loss reads 'c', a constant"));
    EXPECT_FALSE(BuildEvalGraph(Parse(kConstantOutput), options).ok());
  }
}

TEST(TrainingGraph, NamesTheNodeThatCannotBeDifferentiated) {
  const absl::StatusOr<Graph> graph = BuildTrainingGraph(
      Parse(
          "x = input f32[4,3]; w = param f32[3,3]; a = MatMul(x, w); s = TanhGrad(a, a); output s"),
      {});
  EXPECT_EQ(graph.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(graph.status().message()), HasSubstr("'s' (TanhGrad)"));
}

TEST(TrainingGraph, ANodeWithoutGradientIsFineWhereNothingIsTrainedThroughIt) {
  const Graph graph = Train(R"(
    x = input f32[4,3]; w = param f32[3,3]; s = TanhGrad(x, x); y = MatMul(s, w); output y)");
  EXPECT_NE(UpdateOf(graph, "w"), nullptr);
}

TEST(TrainingGraph, UsesTheTargetThatTheModelHas) {
  const Graph graph = Train(R"(
    x = input f32[4,8]; label = input i32[4]; w = param f32[8,3]; y = MatMul(x, w); output y)");
  EXPECT_EQ(NodesOf(graph, "CrossEntropy").at(0)->inputs[1], graph.Find("label"));
}

TEST(TrainingGraph, EveryLossHasItsMetrics) {
  TrainingOptions options;
  options.metrics = {{MetricKind::kAccuracy}, {MetricKind::kTopK, 2}};
  options.loss.ignore_index = 7;
  Graph graph = Train(kMlp, options);
  const std::vector<const Node*> topk = NodesOf(graph, "TopKCorrect");
  ASSERT_EQ(topk.size(), 2u);
  EXPECT_EQ(topk[1]->attrs.Int("k", 0), 2);
  EXPECT_EQ(topk[1]->attrs.Int("ignore_index", 0), 7);
  EXPECT_EQ(topk[1]->inputs.size(), 2u);
  for (absl::string_view name : {"metric/loss", "metric/accuracy.sum", "metric/accuracy.count",
                                 "metric/top2.sum", "metric/top2.count"}) {
    ASSERT_TRUE(graph.Find(name).valid()) << name;
    EXPECT_EQ(graph.value(graph.Find(name)).role, Role::kMetric) << name;
  }

  options = {};
  options.loss.kind = LossKind::kBceWithLogits;
  options.metrics = {{MetricKind::kAccuracy}};
  graph = Train(kMlp, options);
  EXPECT_EQ(NodesOf(graph, "BinaryCorrect").size(), 1u);
  EXPECT_EQ(ToString(graph.value(graph.Find("label")).type), "f32[4,3]");

  options.loss.kind = LossKind::kMse;
  options.metrics = {{MetricKind::kMse}};
  graph = Train(kMlp, options);
  EXPECT_EQ(graph.value(graph.Find("metric/mse.sum")).producer, NodesOf(graph, "MseSum").at(0)->id);
}

TEST(TrainingGraph, AGraphOutputIsTheMetricItselfUnlessItIsAViewOrUsedOtherwise) {
  const std::string start = "w = param f32[4]; l = ReduceSum(w) {axes=[0], keepdims=0}\n";
  Graph graph = Train(start + "output l", GraphLoss());
  EXPECT_EQ(graph.node(graph.value(graph.Find("metric/loss")).producer).op->name, "ReduceSum");
  graph = Train("w = param f32[1]; s = Exp(w); l = Reshape(s) {shape=[]}; output l", GraphLoss());
  EXPECT_EQ(graph.node(graph.value(graph.Find("metric/loss")).producer).op->name, "Scale");
  EXPECT_NE(UpdateOf(graph, "w"), nullptr);
}

TEST(TrainingGraph, ReservedNamesAreRefusedNotRenamed) {
  EXPECT_THAT(Refusal("x = input f32[4,2]; w = param f32[4,2]; metric/loss = Relu(w);"
                      "y = Mul(x, metric/loss); output y",
                      {}),
              HasSubstr("reserved"));
  EXPECT_THAT(Refusal("ebb.hyper = input f32[4,2]; w = param f32[4,2]; y = Mul(ebb.hyper, w);"
                      "output y",
                      {}),
              HasSubstr("reserved"));
}

TEST(TrainingGraph, RefusesAForwardGraphThatIsBroken) {
  Graph graph = Parse(kMlp);
  graph.nodes[1].inputs[0] = ValueId(1000);
  EXPECT_EQ(BuildTrainingGraph(graph, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(BuildEvalGraph(graph, {}).status().code(), absl::StatusCode::kInvalidArgument);
  graph = Parse("x = input f32[4,2]; y = Relu(x) @loss; output y");
  EXPECT_THAT(std::string(BuildTrainingGraph(graph, {}).status().message()),
              HasSubstr("a loss node"));
}

TEST(TrainingGraph, IsTheSameEachTime) {
  TrainingOptions options;
  options.optimizer.kind = OptimizerKind::kAdam;
  EXPECT_EQ(ToText(Train(kMlp, options)), ToText(Train(kMlp, options)));
}

}  // namespace
}  // namespace ebb::graph
