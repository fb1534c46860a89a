// Training and evaluation graphs out of a forward graph's text.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/op.h"
#include "graph/text.h"
#include "graph/training.h"

namespace ebb::graph {

inline Graph Parse(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

inline Graph Train(absl::string_view text, const TrainingOptions& options = {}) {
  absl::StatusOr<Graph> graph = BuildTrainingGraph(Parse(text), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return Graph();
  EXPECT_TRUE(Verify(*graph).ok()) << Verify(*graph) << "\n" << ToText(*graph);
  return *std::move(graph);
}

inline Graph Eval(absl::string_view text, const TrainingOptions& options = {}) {
  absl::StatusOr<Graph> graph = BuildEvalGraph(Parse(text), options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return Graph();
  EXPECT_TRUE(Verify(*graph).ok()) << Verify(*graph) << "\n" << ToText(*graph);
  return *std::move(graph);
}

inline std::string Refusal(absl::string_view text, const TrainingOptions& options) {
  return std::string(BuildTrainingGraph(Parse(text), options).status().message());
}

inline std::vector<std::string> OpNames(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes) names.emplace_back(node.op->name);
  return names;
}

inline std::vector<const Node*> NodesOf(const Graph& graph, absl::string_view op) {
  std::vector<const Node*> found;
  for (const Node& node : graph.nodes) {
    if (node.op->name == op) found.push_back(&node);
  }
  return found;
}

// The update of a parameter; null if there is none.
inline const Node* UpdateOf(const Graph& graph, absl::string_view param) {
  for (const Node& node : graph.nodes) {
    if (!node.op->mutates.empty() && graph.value(node.inputs[0]).name == param) return &node;
  }
  return nullptr;
}

inline TrainingOptions GraphLoss() {
  TrainingOptions options;
  options.loss.kind = LossKind::kGraphOutput;
  return options;
}

inline constexpr absl::string_view kMlp = R"(
  x = input f32[4,8]
  w1 = param f32[8,16]; b1 = param f32[16]; w2 = param f32[16,3]; b2 = param f32[3]
  h = Gemm(x, w1, b1)
  r = Relu(h)
  y = Gemm(r, w2, b2)
  output y
)";

}  // namespace ebb::graph
