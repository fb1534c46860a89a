// Graphs: building, text, and what Verify refuses.
#include "graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "graph/op.h"
#include "graph/text.h"

namespace ebb::graph {
namespace {

using testing::HasSubstr;

Graph Parse(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

std::string Refusal(const Graph& graph) { return std::string(Verify(graph).message()); }

constexpr absl::string_view kSmall = R"(
  x = input f32[4,8]
  w = param f32[8,3]
  rng = scalar i64[2]
  y = MatMul(x, w)
  h = Relu(y)
  d, mask = Dropout(h, rng) {ratio=0.5, stream=1}
  output d
)";

TEST(Graphs, NamesStayUnique) {
  Graph graph;
  const ValueId a = graph.AddValue("x", {DType::kF32, {2}}, Role::kInput);
  const ValueId b = graph.AddValue("x", {DType::kF32, {2}}, Role::kInput);
  EXPECT_EQ(graph.value(a).name, "x");
  EXPECT_EQ(graph.value(b).name, "x_1");
  graph.Rename(a, "x_1");
  EXPECT_EQ(graph.Find(graph.value(a).name), a);
  EXPECT_EQ(graph.Find("x_1"), b);
  EXPECT_FALSE(graph.Find("x").valid());
}

TEST(Graphs, AddNodeAnnotatesErrorsWithTheNode) {
  Graph graph;
  const ValueId x = graph.AddValue("x", {DType::kF32, {2, 3}}, Role::kInput);
  EXPECT_THAT(std::string(graph.AddNode("MatMul", "head", {x, x}).status().message()),
              HasSubstr("'head' (MatMul)"));
  EXPECT_EQ(graph.AddNode("Fold", "f", {x}).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(graph.AddNode("Relu", "r", {ValueId(99)}).ok());
  EXPECT_FALSE(graph.AddNode("Relu", "r", {ValueId()}).ok());
  EXPECT_FALSE(graph.AddNode("Relu", "r", {x, x}).ok());
  EXPECT_FALSE(graph.AddNode("Softmax", "s", {x}, {{"axis", 1.0}}).ok());
  EXPECT_TRUE(graph.nodes.empty());
}

TEST(GraphText, ReadsNodesRolesAndOutputs) {
  const Graph graph = Parse(kSmall);
  ASSERT_TRUE(Verify(graph).ok()) << Verify(graph);
  EXPECT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.value(graph.Find("w")).role, Role::kParam);
  EXPECT_EQ(ToString(graph.value(graph.Find("mask")).type), "u8[4,3]");
  EXPECT_THAT(graph.outputs, testing::ElementsAre(graph.Find("d")));
  EXPECT_EQ(graph.node(NodeId(2)).attrs.Float("ratio", 0), 0.5);
}

TEST(GraphText, WhatToTextWritesReadsBackTheSame) {
  const std::string text = ToText(Parse(R"(
    x = input f32[2,3]; c = constant f32[3] 1 2.5 -3; z = constant i64[2] 7
    w = param f32[3,2]; m = slot f32[3,2] of w; h = scalar f64[4]; b = buffer f32[2]
    y = MatMul(x, w) {trans_a=0}          # a comment
    t = Transpose(y) {perm=[1,0]}
    s = ReduceSum(t) {axes=[0,1], keepdims=0} @loss
    gw = Identity(w) @backward y
    gw2 = Scale(gw) {scale=2} @backward y
    SgdUpdate(w, gw2, h, m) {momentum=0.9} @update y
    metric s
    output y, t
  )"));
  EXPECT_EQ(ToText(Parse(text)), text);
  EXPECT_THAT(text, HasSubstr("c = constant f32[3] 1 2.5 -3\n"));
  EXPECT_THAT(text, HasSubstr("gw2 = Scale(gw) {scale=2.0} @backward y  # f32[3,2]\n"));
  EXPECT_THAT(text, HasSubstr("metric s\noutput y, t\n"));
}

TEST(GraphText, ErrorsNameTheLine) {
  for (absl::string_view bad :
       {"y = Relu(x)", "x = input f33[2]", "x = input f32[2", "x = tank f32[2]", "x = input",
        "c = constant f32[3] 1 2", "c = constant f32[3] one", "m = slot f32[2] of w", "output y",
        "metric y", "x input f32[2]", "x = input f32[2] 3", " = Relu(-)"}) {
    EXPECT_THAT(std::string(ParseGraph(absl::StrCat("a = input f32[2]\n", bad)).status().message()),
                HasSubstr("line 2"))
        << bad;
  }
  for (absl::string_view bad :
       {"y = Relu(a", "y = Relu(a) {", "y = Relu(a) {axis=1.5}", "y = Relu(a) {colour=1}",
        "y, z = Relu(a)", "y = Relu(a) @sideways", "y = Relu(a) @loss nothing", "a = Relu(a)",
        "y = Slice(a) {starts=0}"}) {
    EXPECT_THAT(std::string(ParseGraph(absl::StrCat("a = input f32[2]\n", bad)).status().message()),
                HasSubstr("line 2"))
        << bad;
  }
}

TEST(Verify, RefusesReadingAValueBeforeItIsMade) {
  Graph graph = Parse(kSmall);
  std::swap(graph.nodes[0].inputs, graph.nodes[1].inputs);
  EXPECT_FALSE(Verify(graph).ok());
  graph = Parse("x = input f32[2]; a = Relu(x); b = Relu(a)");
  graph.nodes[0].inputs[0] = graph.Find("b");
  EXPECT_THAT(Refusal(graph), HasSubstr("reads 'b' before it is made"));
}

TEST(Verify, RefusesTypesThatTheOpDoesNotMake) {
  Graph graph = Parse(kSmall);
  graph.value(graph.Find("y")).type.shape[1] = 4;
  EXPECT_THAT(Refusal(graph), HasSubstr("the op makes f32[4,3]"));
}

TEST(Verify, RefusesBrokenIdsAndNames) {
  const Graph good = Parse(kSmall);
  Graph graph = good;
  graph.nodes[1].inputs[0] = ValueId(1000);
  EXPECT_THAT(Refusal(graph), HasSubstr("no value of the graph"));
  graph = good;
  graph.nodes[1].outputs[0] = ValueId(1000);
  EXPECT_THAT(Refusal(graph), HasSubstr("no value of the graph"));
  graph = good;
  graph.nodes[1].outputs.clear();
  EXPECT_THAT(Refusal(graph), HasSubstr("it has 0 outputs"));
  graph = good;
  graph.values[0].name = "w";
  EXPECT_THAT(Refusal(graph), HasSubstr("name used twice"));
  graph = good;
  graph.values[0].id = ValueId(1);
  EXPECT_FALSE(Verify(graph).ok());
  graph = good;
  graph.nodes[0].op = nullptr;
  EXPECT_FALSE(Verify(graph).ok());
  graph = good;
  graph.outputs = {ValueId(1000)};
  EXPECT_FALSE(Verify(graph).ok());
  graph = good;
  graph.values[graph.Find("y").index()].producer = NodeId(1000);
  EXPECT_THAT(Refusal(graph), HasSubstr("its producer does not exist"));
}

TEST(Verify, RefusesRolesThatContradictTheProducer) {
  Graph graph = Parse(kSmall);
  graph.value(graph.Find("y")).role = Role::kParam;
  EXPECT_THAT(Refusal(graph), HasSubstr("param made by a node"));
  graph = Parse(kSmall);
  graph.value(graph.Find("x")).role = Role::kActivation;
  EXPECT_THAT(Refusal(graph), HasSubstr("activation that no node makes"));
  graph = Parse(kSmall);
  graph.value(graph.Find("x")).role = Role::kConstant;
  EXPECT_THAT(Refusal(graph), HasSubstr("has data"));
  graph = Parse(kSmall);
  graph.value(graph.Find("x")).role = Role::kOptState;
  EXPECT_THAT(Refusal(graph), HasSubstr("slot"));
}

TEST(Verify, RefusesHugeAndNegativeShapes) {
  Graph graph;
  graph.AddValue("x", {DType::kF32, {-1}}, Role::kInput);
  EXPECT_THAT(Refusal(graph), HasSubstr("negative"));
  graph = Graph();
  graph.AddValue("x", {DType::kF32, {int64_t{1} << 40, int64_t{1} << 40}}, Role::kInput);
  EXPECT_THAT(Refusal(graph), HasSubstr("too large"));
}

TEST(Verify, RefusesWritingWhatIsNotTrainedOrCarried) {
  Graph graph = Parse(R"(
    w = param f32[3]; h = scalar f64[4]; g = Relu(w)
    SgdUpdate(w, g, h) @update g
  )");
  EXPECT_TRUE(Verify(graph).ok()) << Verify(graph);
  graph.value(graph.Find("w")).role = Role::kInput;
  EXPECT_THAT(Refusal(graph), HasSubstr("writes 'w'"));
}

TEST(Verify, RefusesReadingAParameterAfterItsUpdateEvenThroughAView) {
  const std::string start = "w = param f32[3]; h = scalar f64[4]; g = Relu(w)\n v = Identity(w)\n";
  const std::string update = "SgdUpdate(w, g, h) @update g\n";
  EXPECT_TRUE(Verify(Parse(start + "r = Relu(v) @backward g\n" + update)).ok());
  EXPECT_THAT(Refusal(Parse(start + update + "r = Relu(w) @backward g")),
              HasSubstr("reads 'w' after its update"));
  EXPECT_THAT(Refusal(Parse(start + update + "r = Relu(v) @backward g")),
              HasSubstr("reads 'v' after its update"));
}

TEST(Verify, RefusesPhasesOutOfOrderAndBackwardNodesWithoutMirror) {
  const std::string start = "x = input f32[3]; a = Relu(x)\n";
  EXPECT_THAT(Refusal(Parse(start + "b = Relu(x) @loss\n c = Relu(x)")),
              HasSubstr("phase forward after loss"));
  EXPECT_THAT(Refusal(Parse(start + "b = Relu(x) @backward a\n c = Relu(x) @loss")),
              HasSubstr("phase loss after backward"));
  // The next micro-batch.
  EXPECT_TRUE(Verify(Parse(start + "b = Relu(x) @backward a\n c = Relu(x)")).ok());
  EXPECT_THAT(Refusal(Parse(start + "b = Relu(x) @backward")), HasSubstr("needs a mirror"));
  EXPECT_THAT(Refusal(Parse(start + "b = Relu(x) @backward a\n c = Relu(x) @backward b")),
              HasSubstr("mirror"));
}

TEST(Verify, RefusesAMetricThatIsAView) {
  Graph graph = Parse("x = input f32[1]; a = Relu(x); b = Reshape(a) {shape=[]}; metric b");
  EXPECT_THAT(Refusal(graph), HasSubstr("metric cannot be a view"));
}

TEST(Ops, TheTableIsSortedAndFindsItsRows) {
  const std::vector<const OpDef*> all = AllOps();
  EXPECT_GT(all.size(), 50u);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(FindOp(all[i]->name), all[i]);
    if (i > 0) {
      EXPECT_LT(all[i - 1]->name, all[i]->name);
    }
  }
  EXPECT_EQ(FindOp("Fold"), nullptr);
}

TEST(Ops, CostCountsBytesReadAndWritten) {
  const Graph graph = Parse(R"(
    x = input f32[4,8]; w = param f32[8,3]; h = scalar f64[4]
    y = MatMul(x, w); v = Reshape(y) {shape=[12]}; g = Scale(w) {scale=2}
    SgdUpdate(w, g, h) @update g
  )");
  EXPECT_EQ(CostOf(graph, graph.nodes[0]).bytes, Bytes(4 * (32 + 24 + 12)));
  EXPECT_EQ(CostOf(graph, graph.nodes[0]).flops, Flops(2 * 4 * 8 * 3));
  EXPECT_EQ(CostOf(graph, graph.nodes[1]).bytes, Bytes(0));
  EXPECT_EQ(CostOf(graph, graph.nodes[3]).bytes, Bytes(4 * 24 * 3 + 32));
}

}  // namespace
}  // namespace ebb::graph
