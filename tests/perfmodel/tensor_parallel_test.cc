#include "perfmodel/tensor_parallel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"
#include "graph/training.h"
#include "model/zoo/families.h"
#include "perfmodel/training_step.h"

namespace ebb::perfmodel {
namespace {

graph::Graph Parsed(absl::string_view text) {
  auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.value_or(graph::Graph());
}

const TensorSplit::NodeCut& CutOf(const graph::Graph& graph, const TensorSplit& split,
                                  absl::string_view made) {
  return split.nodes[graph.value(graph.Find(made)).producer.index()];
}

constexpr absl::string_view kTwoLayers = R"(
  x = input f32[8,16]; w0 = param f32[16,16]; h = MatMul(x, w0); n = Relu(h)
  w1 = param f32[16,64]; b1 = param f32[64]; u = MatMul(n, w1); v = Add(u, b1); r = Relu(v)
  w2 = param f32[64,16]; y = MatMul(r, w2); z = Add(y, n)
  output z)";

TEST(SplitTensors, CutsPairsOfLinearLayersByColumnsThenByRows) {
  const graph::Graph graph = Parsed(kTwoLayers);
  const TensorSplit split = SplitTensors(graph, 4);
  EXPECT_EQ(split.pairs, 1);
  EXPECT_EQ(CutOf(graph, split, "u").dimension, 64);
  EXPECT_TRUE(CutOf(graph, split, "r").cut);
  EXPECT_EQ(CutOf(graph, split, "y").dimension, 64);
  EXPECT_EQ(CutOf(graph, split, "y").reduce_bytes, 4.0 * 8 * 16);
  EXPECT_TRUE(split.values[graph.Find("b1").index()]);
  // A residual joins whole values: what made it stays whole.
  EXPECT_FALSE(CutOf(graph, split, "h").cut);
  EXPECT_FALSE(CutOf(graph, split, "z").cut);
  EXPECT_FALSE(split.values[graph.Find("w0").index()]);
}

TEST(SplitTensors, LeavesWholeWhatRanksDoNotDivideOrANormalisationReads) {
  EXPECT_EQ(SplitTensors(Parsed(kTwoLayers), 5).pairs, 0);
  EXPECT_EQ(SplitTensors(Parsed(kTwoLayers), 1).pairs, 0);
  const graph::Graph normalised = Parsed(R"(
    x = input f32[8,16]; w1 = param f32[16,64]; u = MatMul(x, w1)
    s = param f32[64]; b = param f32[64]; v = LayerNorm(u, s, b) {axis=1, epsilon=0.00001}
    w2 = param f32[64,16]; y = MatMul(v, w2)
    output y)");
  EXPECT_EQ(SplitTensors(normalised, 4).pairs, 0);
}

TEST(SplitTensors, FindsAttentionAndFeedForwardOfATransformer) {
  const auto forward = model::zoo::Gpt2Small(2, 32);
  ASSERT_TRUE(forward.ok()) << forward.status();
  EXPECT_EQ(SplitTensors(*forward, 4).pairs, 24);  // 12 layers
}

TEST(StepOf, OfATensorRankDoesAShareOfTheProductsAndExchangesTwiceALayerEachWay) {
  const auto forward = model::zoo::Gpt2Small(2, 32);
  ASSERT_TRUE(forward.ok());
  graph::TrainingOptions options;
  options.loss.kind = graph::LossKind::kGraphOutput;
  options.optimizer.kind = graph::OptimizerKind::kAdam;
  const auto training = graph::BuildTrainingGraph(*forward, options);
  ASSERT_TRUE(training.ok()) << training.status();
  const auto whole = StepOf(*training, 2, 1);
  const auto share = StepOf(*training, 2, 4);
  ASSERT_TRUE(whole.ok() && share.ok()) << whole.status() << share.status();
  const auto totals = [](const TrainingStep& step) {
    std::array<double, 3> sums = {};  // flops of products, reductions, bytes of parameters
    for (const StepOp& op : step.ops) {
      if (IsProduct(op.work.family)) sums[0] += op.work.flops;
      if (op.reduce_bytes > 0) sums[1] += 1;
    }
    for (const StepParam& param : step.params) sums[2] += param.bytes;
    return sums;
  };
  const auto [flops, none, bytes] = totals(*whole);
  const auto [flops4, reductions, bytes4] = totals(*share);
  EXPECT_EQ(none, 0);
  EXPECT_EQ(reductions, 4 * 12);
  // The head, whole on every rank, is 3 x 2 x tokens x 768 x 50257.
  const double head = 6.0 * 64 * 768 * 50257;
  EXPECT_NEAR(flops4 / (head + (flops - head) / 4), 1, 0.01);
  const double embeddings = 4.0 * 768 * 50257;
  EXPECT_GT(bytes4, embeddings);
  EXPECT_LT(bytes4, 0.65 * bytes);
  EXPECT_LT(share->saved_bytes[10], whole->saved_bytes[10] + 1);
}

}  // namespace
}  // namespace ebb::perfmodel
