#include "graph/mixed_precision.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "graph/op.h"
#include "tests/graph/training_graphs.h"

namespace ebb::graph {
namespace {

using testing::HasSubstr;

Graph Mixed(absl::string_view text) {
  auto graph = ToMixedPrecision(Parse(text));
  EXPECT_TRUE(graph.ok()) << graph.status();
  EXPECT_TRUE(Verify(*graph).ok()) << Verify(*graph);
  return *std::move(graph);
}

DType TypeOf(const Graph& graph, const std::string& name) {
  const ValueId id = graph.Find(name);
  EXPECT_TRUE(id.valid()) << name;
  return id.valid() ? graph.value(id).type.dtype : DType::kBool;
}

int CountOf(const Graph& graph, absl::string_view op) {
  return static_cast<int>(std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                        [&](const Node& node) { return node.op->name == op; }));
}

TEST(MixedPrecision, ProductsAreLowAndWhatFollowsThemStaysLow) {
  const Graph graph = Mixed(
      "x = input f32[4,8]; w = param f32[8,6]; v = param f32[6,3]; b = param f32[3]\n"
      "h = MatMul(x, w); r = Relu(h); y = Gemm(r, v, b); s = Softmax(y) {axis=1}; output s");
  EXPECT_EQ(TypeOf(graph, "h"), DType::kBF16);
  EXPECT_EQ(TypeOf(graph, "r"), DType::kBF16);
  EXPECT_EQ(TypeOf(graph, "y"), DType::kBF16);
  EXPECT_EQ(TypeOf(graph, "s"), DType::kF32);
  EXPECT_EQ(TypeOf(graph, "w"), DType::kF32);
  // x, w, v, b down and y up.
  EXPECT_EQ(CountOf(graph, "Cast"), 5);
}

TEST(MixedPrecision, AValueIsCastOnceEachWay) {
  const Graph graph = Mixed(
      "x = input f32[4,8]; w = param f32[8,8]\n"
      "a = MatMul(x, w); b = MatMul(x, w); c = Softmax(a) {axis=1}; d = LogSoftmax(a) {axis=1}\n"
      "e = Add(c, d); f = Add(e, b); output f");
  EXPECT_EQ(CountOf(graph, "Cast"), 4);  // x and w down, a and b up
  EXPECT_EQ(TypeOf(graph, "f"), DType::kF32);
}

TEST(MixedPrecision, SumsWithF32AreF32AndConstantsOfOneElementFollow) {
  const Graph graph = Mixed(
      "x = input f32[4,8]; w = param f32[8,8]; half = constant f32[] 0.5; "
      "mask = constant f32[8] 0 0 0 0 0 0 0 -1\n"
      "a = MatMul(x, w); s = Mul(a, half); m = Add(s, mask); r = Add(a, x); "
      "t = Add(m, r); output t");
  EXPECT_EQ(TypeOf(graph, "s"), DType::kBF16);
  EXPECT_EQ(TypeOf(graph, "m"), DType::kF32);
  EXPECT_EQ(TypeOf(graph, "r"), DType::kF32);
}

TEST(MixedPrecision, BatchNormKeepsItsParametersAndStatistics) {
  const Graph graph = Mixed(
      "x = input f32[2,3,5,5]; k = param f32[4,3,3,3]; g = param f32[4]; b = param f32[4]; "
      "rm = buffer f32[4]; rv = buffer f32[4]\n"
      "c = Conv(x, k) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}\n"
      "n, m, v = BatchNorm(c, g, b, rm, rv); r = Relu(n); output r");
  EXPECT_EQ(TypeOf(graph, "c"), DType::kBF16);
  EXPECT_EQ(TypeOf(graph, "n"), DType::kBF16);
  EXPECT_EQ(TypeOf(graph, "m"), DType::kF32);
  EXPECT_EQ(TypeOf(graph, "g"), DType::kF32);
  // Others read the output in f32 under its own name.
  EXPECT_EQ(TypeOf(graph, "r"), DType::kF32);
  EXPECT_EQ(graph.value(graph.outputs[0]).name, "r");
}

TEST(MixedPrecision, GradientsOfParametersAreF32) {
  const Graph forward = Mixed(
      "x = input f32[4,8]; w = param f32[8,3]; b = param f32[3]\n"
      "h = Gemm(x, w, b); y = Relu(h); output y");
  const auto training = BuildTrainingGraph(forward, {});
  ASSERT_TRUE(training.ok()) << training.status();
  EXPECT_TRUE(Verify(*training).ok()) << Verify(*training);
  int updates = 0;
  for (const Node& node : training->nodes) {
    if (node.phase != Phase::kUpdate) continue;
    ++updates;
    EXPECT_EQ(training->value(node.inputs[1]).type.dtype, DType::kF32) << node.name;
  }
  EXPECT_EQ(updates, 2);
  const auto eval = BuildEvalGraph(forward, {});
  ASSERT_TRUE(eval.ok()) << eval.status();
  EXPECT_TRUE(Verify(*eval).ok()) << Verify(*eval);
}

TEST(MixedPrecision, DoublesStayAsTheyAre) {
  const Graph graph = Mixed("x = input f64[4,8]; w = param f64[8,3]; y = MatMul(x, w); output y");
  EXPECT_EQ(CountOf(graph, "Cast"), 0);
  EXPECT_EQ(TypeOf(graph, "y"), DType::kF64);
}

}  // namespace
}  // namespace ebb::graph
