// Which bytes live when: views, in-place joins, classes and the peak.
#include "graph/liveness.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/text.h"

namespace ebb::graph {
namespace {

class LivenessTest : public testing::Test {
 protected:
  void Compute(absl::string_view text) {
    absl::StatusOr<Graph> graph = ParseGraph(text);
    ASSERT_TRUE(graph.ok()) << graph.status();
    ASSERT_TRUE(Verify(*graph).ok()) << Verify(*graph);
    graph_ = *std::move(graph);
    liveness_ = ComputeLiveness(graph_);
  }
  ValueId Id(absl::string_view name) { return graph_.Find(name); }
  int BufferOf(absl::string_view name) { return liveness_.buffer_of[Id(name).index()]; }
  const Buffer& Of(absl::string_view name) {
    return liveness_.buffers.at(static_cast<size_t>(BufferOf(name)));
  }

  Graph graph_;
  Liveness liveness_;
};

TEST_F(LivenessTest, InputsLiveFromTheStartToTheirLastUse) {
  Compute("x = input f32[4]; u = input f32[4]; a = Exp(x); b = Exp(a); c = Mul(b, x)");
  EXPECT_EQ(Of("x").first, 0);
  EXPECT_EQ(Of("x").last, 2);
  EXPECT_EQ(Of("x").cls, BufferClass::kInput);
  EXPECT_EQ(Of("x").bytes, Bytes(16));
  EXPECT_EQ(BufferOf("u"), -1) << "never used";
}

TEST_F(LivenessTest, ResidentValuesHaveNoBuffer) {
  Compute(
      "x = input f32[4]; w = param f32[4]; c = constant f32[4] 1; l = Mul(x, w); s = Mul(l, c)");
  EXPECT_EQ(BufferOf("w"), -1);
  EXPECT_EQ(BufferOf("c"), -1);
  EXPECT_FALSE(liveness_.alias_of[Id("w").index()].valid());
}

TEST_F(LivenessTest, AnOutputNobodyReadsLivesAtItsOwnNode) {
  Compute(
      "x = input f32[1,1,4]; y, arg = MaxPool(x) {kernel=[2], strides=[2], pads=[0,0], "
      "dilations=[1]}; z = Relu(y)");
  EXPECT_EQ(Of("arg").first, 0);
  EXPECT_EQ(Of("arg").last, 0);
}

TEST_F(LivenessTest, GraphOutputsLiveToTheEnd) {
  Compute("x = input f32[4]; a = Relu(x); b = Exp(a); c = Exp(b); output a");
  EXPECT_EQ(Of("a").last, 2);
  EXPECT_NE(BufferOf("a"), BufferOf("b"));
}

TEST_F(LivenessTest, ViewsShareTheBufferAndProlongIt) {
  Compute(R"(x = input f32[2,3]; w = param f32[3,2]
             a = MatMul(x, w); v = Reshape(a) {shape=[4]}; b = MatMul(x, w); c = Mul(v, v))");
  EXPECT_EQ(BufferOf("a"), BufferOf("v"));
  EXPECT_EQ(Of("a").first, 0);
  EXPECT_EQ(Of("a").last, 3);
  EXPECT_THAT(Of("a").values, testing::ElementsAre(Id("a"), Id("v")));
}

TEST_F(LivenessTest, AViewOfAResidentValueIsAnAliasOfIt) {
  Compute(R"(x = input f32[2,6]; w = param f32[2,3]
             v = Reshape(w) {shape=[6]}; u = Reshape(v) {shape=[6,1]}; y = MatMul(x, u)
             r = Relu(u))");
  EXPECT_EQ(BufferOf("v"), -1);
  EXPECT_EQ(BufferOf("u"), -1);
  EXPECT_EQ(liveness_.alias_of[Id("v").index()], Id("w"));
  EXPECT_EQ(liveness_.alias_of[Id("u").index()], Id("w"));
  EXPECT_FALSE(liveness_.alias_of[Id("w").index()].valid());
  EXPECT_FALSE(liveness_.alias_of[Id("y").index()].valid());
  EXPECT_GE(BufferOf("r"), 0) << "a parameter is never overwritten through a view";
}

TEST_F(LivenessTest, AnElementwiseOutputOverwritesAnInputThatDies) {
  Compute("x = input f32[4]; a = Exp(x); b = Relu(a); c = Relu(b)");
  EXPECT_EQ(BufferOf("a"), BufferOf("c"));
  EXPECT_EQ(BufferOf("a"), BufferOf("x")) << "the batch itself may be overwritten";
  EXPECT_EQ(liveness_.buffers.size(), 1u);
}

TEST_F(LivenessTest, NothingIsOverwrittenThatIsReadLater) {
  Compute("x = input f32[4]; a = Exp(x); b = Relu(a); c = Mul(b, a)");
  EXPECT_NE(BufferOf("a"), BufferOf("b"));
}

TEST_F(LivenessTest, NothingIsOverwrittenWhileAViewOfItIsReadLater) {
  Compute(R"(x = input f32[4]; a = Exp(x); v = Reshape(a) {shape=[2,2]}; b = Relu(a)
             c = Relu(v))");
  EXPECT_EQ(BufferOf("v"), BufferOf("a"));
  EXPECT_NE(BufferOf("b"), BufferOf("a"));
  EXPECT_EQ(BufferOf("c"), BufferOf("a")) << "the last reader may";
}

TEST_F(LivenessTest, NothingIsOverwrittenThatTheNodeReadsTwice) {
  Compute("x = input f32[4]; a = Exp(x); b = AddN(a, a)");
  EXPECT_NE(BufferOf("a"), BufferOf("b"));
  Compute(R"(x = input f32[4]; a = Exp(x); v = Identity(a); b = AddN(a, v))");
  EXPECT_NE(BufferOf("a"), BufferOf("b"));
}

TEST_F(LivenessTest, ABroadcastOperandOfAnotherSizeIsNotOverwritten) {
  Compute("x = input f32[1]; y = input f32[4]; a = Exp(x); b = Add(a, y)");
  EXPECT_NE(BufferOf("a"), BufferOf("b"));
}

TEST_F(LivenessTest, MetricsAreResident) {
  Compute("x = input f32[1]; a = Exp(x); m = Relu(a); b = Relu(m); metric m");
  EXPECT_EQ(BufferOf("m"), -1);
  EXPECT_GE(BufferOf("b"), 0);
  EXPECT_NE(BufferOf("b"), BufferOf("a"));
}

TEST_F(LivenessTest, SavedBuffersReachFromForwardToBackward) {
  Compute(R"(x = input f32[2,3]; w = param f32[3,2]
             a = MatMul(x, w); b = Relu(a); c = Exp(b); d = Relu(c) @loss
             g = MatMul(x, w) @backward a; h = ReluGrad(g, b) @backward b)");
  EXPECT_EQ(Of("b").cls, BufferClass::kSaved);
  EXPECT_EQ(BufferOf("a"), BufferOf("b"));
  EXPECT_EQ(Of("c").cls, BufferClass::kTransient);
  EXPECT_EQ(Of("g").cls, BufferClass::kTransient);
}

TEST_F(LivenessTest, ThePeakIsTheLargestSumOfLiveBuffers) {
  // Bytes by node: x 24 + a 16; a + b 16; a + b + c 16; c + d 4.
  Compute(R"(x = input f32[2,3]; w = param f32[3,2]; u = param f32[2,2]
             a = MatMul(x, w); b = MatMul(a, u); c = MatMul(a, b)
             d = ReduceSum(c) {axes=[0,1], keepdims=0})");
  EXPECT_EQ(LivePeak(liveness_, 4), Bytes(48));
  EXPECT_EQ(LivePeak(ComputeLiveness(Graph()), 0), Bytes(0));
}

}  // namespace
}  // namespace ebb::graph
