// Which tensors are made again, where, and which must not be. That all bits of a step stay as they
// were is tested where there are kernels.
#include "graph/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/liveness.h"
#include "graph/op.h"
#include "graph/text.h"
#include "graph/training.h"

namespace ebb::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Graph Train(absl::string_view text) {
  const absl::StatusOr<Graph> forward = ParseGraph(text);
  EXPECT_TRUE(forward.ok()) << forward.status();
  if (!forward.ok()) return Graph();
  TrainingOptions options;
  options.loss.kind = LossKind::kGraphOutput;
  absl::StatusOr<Graph> graph = BuildTrainingGraph(*forward, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

// Bytes read and written, in microseconds of a memory of 1 GB/s; a thousand times that for products
// and convolutions.
double Cost(const Graph& graph, const Node& node) {
  if (node.op->is_view) return 0;
  const double us = static_cast<double>(CostOf(graph, node).bytes.count()) / 1e3;
  const bool product = node.op->name == "MatMul" || absl::StartsWith(node.op->name, "Conv");
  return product ? 1000 * us : us;
}
// Less than a product costs.
constexpr double kShare = 0.01;

Recomputed Rewrite(const Graph& graph, RecomputeOptions options = {.most_cost = kShare}) {
  options.cost = Cost;
  absl::StatusOr<Recomputed> result = Recompute(graph, options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  EXPECT_TRUE(Verify(result->graph).ok()) << Verify(result->graph) << "\n" << ToText(result->graph);
  const int nodes = static_cast<int>(result->graph.nodes.size());
  EXPECT_EQ(result->live_peak_after, LivePeak(ComputeLiveness(result->graph), nodes));
  EXPECT_LE(result->live_peak_after, result->live_peak_before);
  EXPECT_EQ(result->values.empty(), result->live_peak_after == result->live_peak_before);
  EXPECT_EQ(result->values.empty(), result->graph.nodes.size() == graph.nodes.size());
  return *std::move(result);
}

std::vector<const Node*> Clones(const Graph& graph, absl::string_view op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes) {
    if (node.op->name == op && node.phase == Phase::kBackward) found.push_back(&node);
  }
  return found;
}

int Count(const Graph& graph, absl::string_view op) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op->name == op ? 1 : 0;
  return count;
}

// Two layers, then a loss whose products are as large as what the layers save. Backward reads a1
// (GeluGrad), g1 (the gradient of w2), a2 and g2.
constexpr absl::string_view kGelus = R"(
  x = input f32[64,32]
  w1 = param f32[32,64]; w2 = param f32[64,64]; w3 = param f32[64,32]
  a1 = MatMul(x, w1); g1 = Gelu(a1)
  a2 = MatMul(g1, w2); g2 = Gelu(a2)
  a3 = MatMul(g2, w3)
  l = ReduceMean(a3) {axes=[0,1], keepdims=0}
  output l
)";

TEST(Recompute, MakesCheapTensorsAgainFromSavedOnes) {
  const Graph graph = Train(kGelus);
  const Recomputed result = Rewrite(graph);
  EXPECT_THAT(result.values, ElementsAre("g1"));
  const auto clones = Clones(result.graph, "Gelu");
  ASSERT_EQ(clones.size(), 1u);
  EXPECT_EQ(result.graph.value(clones[0]->inputs[0]).name, "a1");
  // Right before the gradient of w2, in the unit of the node that has it.
  const Node& reader = result.graph.node(NodeId(clones[0]->id.value() + 1));
  EXPECT_EQ(reader.op->name, "MatMul");
  EXPECT_EQ(reader.phase, Phase::kBackward);
  EXPECT_THAT(reader.inputs, testing::Contains(clones[0]->outputs[0]));
  EXPECT_EQ(clones[0]->mirror, reader.mirror);
  EXPECT_DOUBLE_EQ(result.cost_us, Cost(graph, graph.node(graph.value(graph.Find("g1")).producer)));
}

TEST(Recompute, KeepsIdsNamesAndRoles) {
  const Graph graph = Train(kGelus);
  const Recomputed result = Rewrite(graph);
  ASSERT_GT(result.graph.values.size(), graph.values.size());
  for (const Value& value : graph.values) {
    EXPECT_EQ(result.graph.value(value.id).name, value.name);
    EXPECT_EQ(result.graph.value(value.id).role, value.role);
    EXPECT_EQ(result.graph.Find(value.name), value.id);
  }
}

TEST(Recompute, WithoutABudgetNothingChanges) {
  const Graph graph = Train(kGelus);
  const Recomputed result = Rewrite(graph, {.most_cost = 0});
  EXPECT_THAT(result.values, IsEmpty());
  EXPECT_EQ(ToText(result.graph), ToText(graph));
  EXPECT_EQ(result.cost_us, 0);
}

TEST(Recompute, StaysWithinItsShareOfTheTime) {
  const Graph graph = Train(kGelus);
  double step_us = 0;
  for (const Node& node : graph.nodes) step_us += Cost(graph, node);
  const double one = Rewrite(graph).cost_us / step_us;
  EXPECT_THAT(Rewrite(graph, {.most_cost = one * 0.99}).values, IsEmpty());
  EXPECT_THAT(Rewrite(graph, {.most_cost = one * 1.01}).values, ElementsAre("g1"));
}

TEST(Recompute, StopsAtTheTarget) {
  std::string text = "x = input f32[256,64]; w0 = param f32[64,64]; a0 = MatMul(x, w0)\n";
  for (int i = 1; i <= 6; ++i) {
    absl::StrAppend(&text, "w", i, " = param f32[64,64]; g", i, " = Gelu(a", i - 1, "); a", i,
                    " = MatMul(g", i, ", w", i, ")\n");
  }
  text += "l = ReduceMean(a6) {axes=[0,1], keepdims=0}; output l";
  const Graph graph = Train(text);
  const Recomputed all = Rewrite(graph);
  ASSERT_GE(all.values.size(), 4u);
  const Bytes target = all.live_peak_before - KiB(64);  // one activation
  const Recomputed some = Rewrite(graph, {.target = target, .most_cost = kShare});
  EXPECT_LE(some.live_peak_after, target);
  EXPECT_EQ(some.values.size(), 1u);
}

TEST(Recompute, BatchNormRunsOnceAndItsOutputIsMadeFromItsStatistics) {
  const Graph graph = Train(R"(
    x = input f32[16,4,8,8]
    w1 = param f32[8,4,3,3]; s = param f32[8]; b = param f32[8]
    m = buffer f32[8]; v = buffer f32[8]
    w2 = param f32[8,8,3,3]; w3 = param f32[8,8,3,3]
    c1 = Conv(x, w1) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1]}
    n1, mean, var = BatchNorm(c1, s, b, m, v) {epsilon=0.001, momentum=0.2}
    r1 = Relu(n1)
    c2 = Conv(r1, w2) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1]}
    r2 = Relu(c2)
    c3 = Conv(r2, w3) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1]}
    l = ReduceMean(c3) {axes=[0,1,2,3], keepdims=0}
    output l
  )");
  const Recomputed result = Rewrite(graph);
  EXPECT_THAT(result.values, ElementsAre("n1", "r1"));
  EXPECT_EQ(Count(result.graph, "BatchNorm"), 1);
  const auto clones = Clones(result.graph, "BatchNormInference");
  ASSERT_EQ(clones.size(), 1u);
  std::vector<std::string> inputs;
  for (ValueId input : clones[0]->inputs) inputs.push_back(result.graph.value(input).name);
  EXPECT_THAT(inputs, ElementsAre("c1", "s", "b", "mean", "var"));
  EXPECT_EQ(clones[0]->attrs, Attrs({{"epsilon", 0.001}}));
}

TEST(Recompute, DropoutDrawsTheSameNumbersAgain) {
  const Graph graph = Train(R"(
    x = input f32[64,32]; ebb.rng = scalar i64[2]
    w1 = param f32[32,64]; w2 = param f32[64,64]; w3 = param f32[64,512]
    a1 = MatMul(x, w1); s1 = Softmax(a1) {axis=1}
    d1, mask = Dropout(s1, ebb.rng) {ratio=0.5, stream=7}
    a2 = MatMul(d1, w2); s2 = Sigmoid(a2)
    a3 = MatMul(s2, w3); s3 = Sigmoid(a3)
    l = ReduceMean(s3) {axes=[0,1], keepdims=0}
    output l
  )");
  const Recomputed result = Rewrite(graph);
  // From the softmax, which is saved anyway; with the clone there, the mask costs nothing more.
  EXPECT_THAT(result.values, ElementsAre("d1", "mask"));
  const auto clones = Clones(result.graph, "Dropout");
  ASSERT_EQ(clones.size(), 1u);
  EXPECT_EQ(clones[0]->attrs, Attrs({{"ratio", 0.5}, {"stream", int64_t{7}}}));
  EXPECT_EQ(result.graph.value(clones[0]->inputs[0]).name, "s1");
  EXPECT_EQ(result.graph.value(clones[0]->inputs[1]).name, "ebb.rng");
}

// Backward reads a and e, not what lies between, which is written over: `links` + 1 negations.
std::string Chain(int links) {
  std::string text = R"(
    x = input f32[64,32]
    w1 = param f32[32,64]; w2 = param f32[64,64]; w3 = param f32[64,64]
    w4 = param f32[64,512]
    a = MatMul(x, w1); g = Gelu(a); n0 = Neg(a)
  )";
  for (int i = 1; i <= links; ++i) {
    absl::StrAppend(&text, "n", i, " = Neg(n", i - 1, ")\n");
  }
  return absl::StrCat(text, "e = Sigmoid(n", links, R"()
    p = MatMul(g, w2); q = MatMul(e, w3); f = Mul(p, q)
    t = MatMul(f, w4); s = Sigmoid(t)
    l = ReduceMean(s) {axes=[0,1], keepdims=0}
    output l
  )");
}

TEST(Recompute, FollowsChainsToWhatIsStillThere) {
  const Graph graph = Train(Chain(0));
  const Recomputed result = Rewrite(graph);
  EXPECT_THAT(result.values, testing::IsSupersetOf({"n0", "e"}));
  const auto clones = Clones(result.graph, "Sigmoid");
  ASSERT_EQ(clones.size(), 1u);
  EXPECT_EQ(result.graph.value(clones[0]->inputs[0]).name, "recompute/n0");
}

TEST(Recompute, ChainsHaveAnEnd) {
  EXPECT_THAT(Rewrite(Train(Chain(40))).values, testing::Contains("e"));
  EXPECT_THAT(Rewrite(Train(Chain(100))).values, testing::Not(testing::Contains("e")));
}

// A training graph by hand: h is read after w, which it was made from, has been written.
Graph ReadAfterUpdate(bool write_first) {
  const std::string update = "SgdUpdate(w, dw, ebb.hyper) @update c\n";
  const absl::StatusOr<Graph> graph =
      ParseGraph(absl::StrCat("x = input f32[4096]; w = param f32[4096]; u = param f32[4096]\n"
                              "ebb.hyper = scalar f64[4]\n"
                              "h = Mul(x, w)\n"
                              "c = Add(h, x)\n"
                              "big = Concat(c, c, c, c) {axis=0}\n"
                              "e = Exp(big)\n"
                              "s = ReduceMean(e) {axes=[0]}\n"
                              "de = Mul(e, s) @backward e\n"
                              "dc = ReduceMean(de) {axes=[0]} @backward c\n"
                              "dw = Expand(dc) {shape=[4096]} @backward c\n",
                              write_first ? update : "",
                              "du = Mul(h, x) @backward h\n"
                              "SgdUpdate(u, du, ebb.hyper) @update h\n",
                              write_first ? "" : update));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : Graph();
}

TEST(Recompute, NeverReadsAParameterAfterItsUpdate) {
  EXPECT_THAT(Rewrite(ReadAfterUpdate(false), {.most_cost = 0.2}).values, ElementsAre("h"));
  EXPECT_THAT(Rewrite(ReadAfterUpdate(true), {.most_cost = 0.2}).values, IsEmpty());
}

TEST(Recompute, AViewIsMadeAgainWithWhatItViews) {
  const Graph graph = Train(R"(
    x = input f32[64,32]
    w1 = param f32[32,64]; w2 = param f32[32,64]; w3 = param f32[64,512]
    a = MatMul(x, w1); g = Gelu(a)
    v = Reshape(g) {shape=[128,32]}
    p = MatMul(v, w2)
    t = MatMul(p, w3); s = Sigmoid(t)
    l = ReduceMean(s) {axes=[0,1], keepdims=0}
    output l
  )");
  EXPECT_THAT(Rewrite(graph).values, ElementsAre("g", "v"));
}

TEST(Recompute, RefusesOptionsWithoutSense) {
  const Graph graph = Train(kGelus);
  const auto message = [&](const RecomputeOptions& options) {
    const auto result = Recompute(graph, options);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(result.status().message());
  };
  EXPECT_THAT(message({.most_cost = 0.1}), HasSubstr("cost function"));
  EXPECT_THAT(message({.most_cost = -1, .cost = Cost}), HasSubstr("most_cost"));
  EXPECT_THAT(message({.target = Bytes(-1), .cost = Cost}), HasSubstr("target"));
  EXPECT_THAT(message({.most_cost = 0.1,
                       .cost =
                           [](const Graph&, const Node& node) {
                             return node.op->name == "Gelu"
                                        ? std::numeric_limits<double>::quiet_NaN()
                                        : 1.0;
                           }}),
              HasSubstr("node 'g1'"));
}

}  // namespace
}  // namespace ebb::graph
