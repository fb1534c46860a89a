#include "graph/streaming.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/liveness.h"
#include "graph/op.h"
#include "graph/text.h"

namespace ebb::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Graph Parse(const std::string& text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

// A chain of four products; forward, then backward in reverse with one update each.
constexpr char kChain[] = R"(
  x = input f32[2,2]; h = scalar f64[4]
  w0 = param f32[2,2]; w1 = param f32[2,2]; w2 = param f32[2,2]; m0 = slot f32[2,2] of w0
  a = MatMul(x, w0); b = MatMul(a, w1); c = MatMul(b, w2); d = Relu(c); e = Relu(d)
  ge = Mul(e, e) @backward e
  gc = MatMul(ge, w2) @backward c; u2 = MatMul(b, ge) @backward c
  SgdUpdate(w2, u2, h) @update c
  gb = MatMul(gc, w1) @backward b; u1 = MatMul(a, gc) @backward b
  SgdUpdate(w1, u1, h) @update b
  u0 = MatMul(x, gb) @backward a
  SgdUpdate(w0, u0, h, m0) {momentum=0.9} @update a
)";

std::vector<bool> Choose(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<bool> chosen(graph.values.size());
  for (const std::string& name : names) {
    EXPECT_TRUE(graph.Find(name).valid()) << name;
    chosen[graph.Find(name).index()] = true;
  }
  return chosen;
}

std::vector<std::string> NamesOf(const Graph& graph, const std::vector<NodeId>& nodes) {
  std::vector<std::string> names;
  for (const NodeId id : nodes) names.push_back(graph.node(id).name);
  return names;
}

// One sub-model a node.
StreamedGraph Stream(const Graph& graph, const std::vector<std::string>& names) {
  std::vector<NodeRange> cuts;
  for (const Node& node : graph.nodes) cuts.push_back({node.id.value(), node.id.value()});
  auto streamed = StreamState(graph, cuts, Choose(graph, names));
  EXPECT_TRUE(streamed.ok()) << streamed.status();
  EXPECT_TRUE(Verify(streamed->graph).ok()) << Verify(streamed->graph);
  return *std::move(streamed);
}

TEST(StreamState, FetchesBeforeEveryIntervalOfUsesAndStoresAfterTheLast) {
  const Graph graph = Parse(kChain);
  const StreamedGraph s = Stream(graph, {"w1"});
  // Uses: forward in sub-model 1, backward in 9, its update in 11.
  EXPECT_THAT(NamesOf(s.graph, s.traffic[0].fetch_ahead), ElementsAre("Fetch/w1"));
  EXPECT_THAT(s.traffic[0].fetch_now, IsEmpty());
  EXPECT_THAT(NamesOf(s.graph, s.traffic[8].fetch_ahead), ElementsAre("Fetch/w1"));
  EXPECT_THAT(NamesOf(s.graph, s.traffic[12].store), ElementsAre("Store/w1"));
  for (size_t i = 0; i < s.traffic.size(); ++i) {
    EXPECT_EQ(s.traffic[i].copies(), i == 0 || i == 8 || i == 12) << i;
  }
  EXPECT_EQ(s.fetched, Bytes(32));
  EXPECT_EQ(s.stored, Bytes(16));
  // The three uses read two different copies; nobody else reads the parameter.
  int reads = 0;
  for (const Node& node : s.graph.nodes) {
    for (const ValueId in : node.inputs) {
      if (in.valid() && s.graph.value(in).name == "w1") ++reads;
    }
  }
  EXPECT_EQ(reads, 3);  // two fetches and a store
}

TEST(StreamState, WhatTheFirstSubModelReadsIsFetchedThereAndTheLastOneStoresItsOwn) {
  const Graph graph = Parse(kChain);
  const StreamedGraph s = Stream(graph, {"w0", "m0"});
  EXPECT_THAT(NamesOf(s.graph, s.traffic[0].fetch_now), ElementsAre("Fetch/w0"));
  const size_t last = s.traffic.size() - 1;
  EXPECT_THAT(NamesOf(s.graph, s.traffic[last - 1].fetch_ahead),
              ElementsAre("Fetch/w0", "Fetch/m0"));
  EXPECT_THAT(NamesOf(s.graph, s.traffic[last].store_last), ElementsAre("Store/w0", "Store/m0"));
}

TEST(StreamState, UsesCloseToEachOtherShareACopy) {
  const Graph graph = Parse(kChain);
  const StreamedGraph s = Stream(graph, {"w2"});  // 2, 6 and 8: the first is too far away
  EXPECT_THAT(NamesOf(s.graph, s.traffic[1].fetch_ahead), ElementsAre("Fetch/w2"));
  EXPECT_THAT(NamesOf(s.graph, s.traffic[5].fetch_ahead), ElementsAre("Fetch/w2"));
  EXPECT_THAT(s.traffic[7].fetch_ahead, IsEmpty());
  EXPECT_EQ(s.fetched, Bytes(32));
}

TEST(StreamState, CopiesLiveFromTheirFetchToTheirStoreOnly) {
  const Graph graph = Parse(kChain);
  const StreamedGraph s = Stream(graph, {"w1"});
  const Liveness liveness = ComputeLiveness(s.graph);
  std::vector<std::pair<int, int>> lives;
  for (const Buffer& buffer : liveness.buffers) {
    if (buffer.cls == BufferClass::kStreamed) lives.emplace_back(buffer.first, buffer.last);
  }
  ASSERT_EQ(lives.size(), 2u);
  EXPECT_EQ(lives[0].first, s.traffic[0].fetch_ahead[0].value());
  EXPECT_EQ(lives[0].second, s.traffic[1].computed.last);
  EXPECT_EQ(lives[1].first, s.traffic[8].fetch_ahead[0].value());
  EXPECT_EQ(lives[1].second, s.traffic[12].store[0].value());
}

TEST(StreamState, NodesKeepTheirOrderAndTheSubModelsCoverAll) {
  const Graph graph = Parse(kChain);
  const StreamedGraph s = Stream(graph, {"w0", "w1", "w2", "m0"});
  std::vector<std::string> before, after;
  for (const Node& node : graph.nodes) before.push_back(node.name);
  for (const Node& node : s.graph.nodes) {
    if (node.op->name != "Fetch" && node.op->name != "Store") after.push_back(node.name);
  }
  EXPECT_EQ(after, before);
  int next = 0;
  for (size_t i = 0; i < s.sub_models.size(); ++i) {
    EXPECT_EQ(s.sub_models[i].first, next);
    EXPECT_LE(s.sub_models[i].first, s.traffic[i].computed.first);
    EXPECT_LE(s.traffic[i].computed.last, s.sub_models[i].last);
    next = s.sub_models[i].last + 1;
  }
  EXPECT_EQ(next, static_cast<int>(s.graph.nodes.size()));
}

TEST(StreamState, RefusesWhatDoesNotLiveAcrossSteps) {
  const Graph graph = Parse(kChain);
  const auto status = StreamState(graph, {}, Choose(graph, {"h"})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'h'"));
}

}  // namespace
}  // namespace ebb::graph
