// Runs the gradient rule of one node without autodiff around it.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "graph/op.h"

namespace ebb::graph {

// Gradients arrive as new inputs of the graph; the rule's nodes are appended to it.
class OneNodeGradient final : public GradContext {
 public:
  // `needs`: inputs whose gradient is wanted; `arriving`: outputs at which one arrives.
  OneNodeGradient(Graph& graph, NodeId node, std::set<size_t> needs, std::set<size_t> arriving)
      : graph_(graph), node_(node), needs_(std::move(needs)) {
    const std::vector<ValueId> outputs = graph.node(node).outputs;
    dy_.resize(outputs.size());
    for (const size_t i : arriving) {
      dy_[i] = graph.AddValue("dy", graph.value(outputs[i]).type, Role::kInput);
    }
  }

  const Node& node() const override { return graph_.node(node_); }
  const TensorType& type(ValueId value) const override { return graph_.value(value).type; }
  ValueId dy(size_t output) const override { return dy_.at(output); }
  bool needs(size_t input) const override { return needs_.count(input) > 0; }
  absl::StatusOr<std::vector<ValueId>> EmitAll(absl::string_view op, std::vector<ValueId> inputs,
                                               Attrs attrs) override {
    auto made = graph_.AddNode(op, "backward", std::move(inputs), std::move(attrs),
                               Phase::kBackward, node_);
    if (!made.ok()) return made.status();
    // Copied into fresh storage, as autodiff may move the graph: rules must not hold references.
    std::vector<Node> nodes(graph_.nodes);
    std::vector<Value> values(graph_.values);
    graph_.nodes.swap(nodes);
    graph_.values.swap(values);
    return graph_.node(*made).outputs;
  }
  absl::StatusOr<ValueId> Emit(absl::string_view op, std::vector<ValueId> inputs,
                               Attrs attrs) override {
    auto made = EmitAll(op, std::move(inputs), std::move(attrs));
    if (!made.ok()) return made.status();
    return made->at(0);
  }
  void SetGrad(size_t input, ValueId value) override { ++times_[input], grads_[input] = value; }

  const std::map<size_t, ValueId>& grads() const { return grads_; }
  int times(size_t input) const { return times_.count(input) ? times_.at(input) : 0; }

 private:
  Graph& graph_;
  NodeId node_;
  std::set<size_t> needs_;
  std::vector<ValueId> dy_;
  std::map<size_t, ValueId> grads_;
  std::map<size_t, int> times_;
};

}  // namespace ebb::graph
