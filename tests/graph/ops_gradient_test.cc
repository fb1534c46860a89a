// Gradient rules of the op table, one node at a time, and all rules on mutated graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/graph/op_cases.h"
#include "tests/graph/op_gradient.h"

namespace ebb::graph {
namespace {
using Ints = std::vector<int64_t>;
using ::testing::HasSubstr;

std::vector<std::string> OpsAfter(const Graph& graph, NodeId node) {
  std::vector<std::string> ops;
  for (size_t i = node.index() + 1; i < graph.nodes.size(); ++i) {
    ops.emplace_back(graph.nodes[i].op->name);
  }
  return ops;
}

// The ops that the rule emits for the gradients of `needs`.
std::vector<std::string> Emitted(const OpCase& test, std::set<size_t> needs) {
  Graph graph;
  const auto node = graph.AddNode(test.op, "n", AddInputs(graph, test), test.attrs);
  EXPECT_TRUE(node.ok()) << node.status();
  OneNodeGradient grad(graph, *node, std::move(needs), {0});
  EXPECT_TRUE(graph.node(*node).op->gradient(grad).ok());
  return OpsAfter(graph, *node);
}

TEST(OpGradients, HaveTheTypesOfTheirInputs) {
  for (const OpCase& test : AcceptedCases()) {
    SCOPED_TRACE(Describe(test));
    const OpDef& op = *FindOp(test.op);
    if (op.gradient == nullptr) {
      EXPECT_TRUE(test.grads.empty());
      continue;
    }
    Graph graph;
    const std::vector<ValueId> inputs = AddInputs(graph, test);
    const auto node = graph.AddNode(test.op, "n", inputs, test.attrs);
    ASSERT_TRUE(node.ok()) << node.status();
    OneNodeGradient grad(graph, *node, {test.grads.begin(), test.grads.end()}, {0});
    const absl::Status status = op.gradient(grad);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(grad.grads().size(), test.grads.size());
    for (const size_t i : test.grads) {
      ASSERT_EQ(grad.times(i), 1) << "input " << i;
      EXPECT_EQ(ToString(grad.type(grad.grads().at(i))), ToString(grad.type(inputs[i])));
    }
    const absl::Status verified = Verify(graph);
    EXPECT_TRUE(verified.ok()) << verified << "\n" << ToText(graph);
  }
}

TEST(OpGradients, AreOnlyMadeWhereAsked) {
  for (const OpCase& test : AcceptedCases()) {
    if (FindOp(test.op)->gradient == nullptr) continue;
    SCOPED_TRACE(Describe(test));
    Graph graph;
    const auto node = graph.AddNode(test.op, "n", AddInputs(graph, test), test.attrs);
    ASSERT_TRUE(node.ok()) << node.status();
    OneNodeGradient none(graph, *node, {}, {0});
    ASSERT_TRUE(graph.node(*node).op->gradient(none).ok());
    EXPECT_TRUE(none.grads().empty());
    EXPECT_TRUE(OpsAfter(graph, *node).empty());
    for (const size_t i : test.grads) {
      OneNodeGradient one(graph, *node, {i}, {0});
      ASSERT_TRUE(graph.node(*node).op->gradient(one).ok());
      EXPECT_EQ(one.grads().size(), 1u);
      EXPECT_EQ(one.times(i), 1);
    }
    OneNodeGradient silent(graph, *node, {test.grads.begin(), test.grads.end()}, {});
    ASSERT_TRUE(graph.node(*node).op->gradient(silent).ok());
    EXPECT_TRUE(silent.grads().empty());
  }
}

TEST(OpGradients, SumOnlyOverBroadcastAxes) {
  EXPECT_EQ(Emitted({"Add", "f32[2,3] f32[2,3]", {}, "", ""}, {0, 1}), std::vector<std::string>());
  EXPECT_EQ(Emitted({"Add", "f32[2,3] f32[3]", {}, "", ""}, {0, 1}),
            std::vector<std::string>{"SumTo"});
  EXPECT_EQ(Emitted({"Sub", "f32[2,3] f32[3]", {}, "", ""}, {0, 1}),
            (std::vector<std::string>{"SumTo", "Neg"}));
}

TEST(OpGradients, OfASharedWeightIsOneProductOverAllRows) {
  Graph graph;
  const OpCase test = {"MatMul", "f32[5,2,3] f32[3,4]", {}, "", ""};
  const auto node = graph.AddNode(test.op, "n", AddInputs(graph, test), test.attrs);
  ASSERT_TRUE(node.ok());
  OneNodeGradient grad(graph, *node, {1}, {0});
  ASSERT_TRUE(graph.node(*node).op->gradient(grad).ok());
  EXPECT_EQ(OpsAfter(graph, *node), (std::vector<std::string>{"Reshape", "Reshape", "MatMul"}));
  EXPECT_EQ(ToString(grad.type(graph.nodes.back().inputs[0])), "f32[10,3]");
}

TEST(OpGradients, MaxAndMinShareTies) {
  for (const bool max : {true, false}) {
    Graph graph;
    const OpCase test = {max ? "Max" : "Min", "f32[2] f32[2]", {}, "", ""};
    const std::vector<ValueId> inputs = AddInputs(graph, test);
    const auto node = graph.AddNode(test.op, "n", inputs, test.attrs);
    ASSERT_TRUE(node.ok());
    OneNodeGradient grad(graph, *node, {0, 1}, {0});
    ASSERT_TRUE(graph.node(*node).op->gradient(grad).ok());
    for (const size_t i : {size_t{0}, size_t{1}}) {  // whether a takes dy, and whether b does
      const Node& compare = graph.nodes[1 + i];
      EXPECT_EQ(compare.op->name, "GreaterEqual");
      EXPECT_EQ(compare.inputs[0], inputs[max == (i == 0) ? 0 : 1]);
      EXPECT_EQ(compare.inputs[1], inputs[max == (i == 0) ? 1 : 0]);
    }
    EXPECT_EQ(OpsAfter(graph, NodeId(2)),
              (std::vector<std::string>{"Sub", "Scale", "Mul", "Scale", "Mul"}));
  }
}

TEST(OpGradients, ThroughStatisticsAndLogProbabilitiesAreRefused) {
  const std::vector<std::pair<OpCase, size_t>> cases = {
      {{"BatchNorm", "f32[2,3] f32[3] f32[3] f32[3] f32[3]", {}, "", ""}, 1},
      {{"BatchNorm", "f32[2,3] f32[3] f32[3] f32[3] f32[3]", {}, "", ""}, 2},
      {{"CrossEntropy", "f32[2,3] i64[2]", {}, "", ""}, 1},
  };
  for (const auto& [test, output] : cases) {
    Graph graph;
    const auto node = graph.AddNode(test.op, "n", AddInputs(graph, test), test.attrs);
    ASSERT_TRUE(node.ok());
    OneNodeGradient grad(graph, *node, {0}, {0, output});
    const absl::Status status = graph.node(*node).op->gradient(grad);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr("only through its first output"));
  }
}

// ---- Whatever a shape rule lets pass, cost and gradient must cope with.

class Mutator {
 public:
  explicit Mutator(uint32_t seed) : random_(seed) {}
  size_t Below(size_t n) { return n == 0 ? 0 : random_() % n; }

  int64_t Nasty() {
    static constexpr int64_t kValues[] = {0,
                                          1,
                                          -1,
                                          2,
                                          3,
                                          -2,
                                          7,
                                          255,
                                          (int64_t{1} << 31) - 1,
                                          int64_t{1} << 32,
                                          int64_t{1} << 47,
                                          std::numeric_limits<int64_t>::max(),
                                          std::numeric_limits<int64_t>::min()};
    return kValues[Below(std::size(kValues))];
  }
  void Mutate(std::vector<TensorType>& types, Attrs& attrs) {
    if (Below(2) == 0 || attrs.map().empty()) {
      if (!types.empty()) MutateType(types[Below(types.size())]);
      return;
    }
    auto it = attrs.map().begin();
    std::advance(it, Below(attrs.map().size()));
    const std::string name = it->first;
    AttrValue value = it->second;
    if (auto* ints = std::get_if<Ints>(&value)) {
      MutateInts(*ints);
    } else if (std::holds_alternative<int64_t>(value)) {
      value = Nasty();
    } else if (std::holds_alternative<double>(value)) {
      value = std::vector{0.0, -1.0, 1e308, HUGE_VAL, std::nan("")}[Below(5)];
    } else {
      value = std::vector{"none", "sum", "mean", "f32", "i64", "tanh", ""}[Below(7)];
    }
    attrs.Set(name, std::move(value));
  }

 private:
  template <class List>
  void MutateInts(List& ints) {
    const size_t choice = Below(8);
    if (choice == 0) {
      ints.push_back(Nasty());
    } else if (choice == 1 && !ints.empty()) {
      ints.pop_back();
    } else if (!ints.empty()) {
      ints[Below(ints.size())] = Nasty();
    }
  }
  void MutateType(TensorType& type) {
    if (Below(6) == 0) {
      type.dtype = static_cast<DType>(Below(6));
    } else {
      MutateInts(type.shape);
    }
  }
  std::mt19937 random_;
};

TEST(OpRules, NothingThatTheShapeRuleAcceptsBreaksCostOrGradient) {
  constexpr uint32_t kSeed = 20260731;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Mutator mutator(kSeed);
  const std::vector<OpCase> cases = AcceptedCases();
  int accepted = 0;
  for (int round = 0; round < 60000; ++round) {
    const OpCase& test = cases[static_cast<size_t>(round) % cases.size()];
    const OpDef& op = *FindOp(test.op);
    std::vector<TensorType> types;
    for (const std::string& word : Words(test.inputs)) {
      if (word != "-") types.push_back(ParseType(word));
    }
    Attrs attrs = test.attrs;
    for (size_t i = 0; i <= mutator.Below(2); ++i) mutator.Mutate(types, attrs);
    std::vector<const TensorType*> pointers;
    for (const TensorType& type : types) pointers.push_back(&type);
    const auto outputs = op.shape({pointers, attrs});
    if (!outputs.ok()) {
      EXPECT_EQ(outputs.status().code(), absl::StatusCode::kInvalidArgument);
      EXPECT_FALSE(outputs.status().message().empty());
      continue;
    }
    Graph graph;
    std::vector<ValueId> inputs;
    for (const TensorType& type : types) {
      inputs.push_back(graph.AddValue("x", type, Role::kInput));
    }
    const auto node = graph.AddNode(test.op, "n", inputs, attrs);
    if (!node.ok()) continue;  // larger than memory could be
    ++accepted;
    EXPECT_GE(CostOf(graph, graph.node(*node)).flops.count(), 0);
    if (op.gradient == nullptr || !IsFloat(outputs->at(0).dtype)) continue;
    std::set<size_t> needs;
    for (const size_t i : test.grads) {
      if (IsFloat(types[i].dtype)) needs.insert(i);
    }
    OneNodeGradient grad(graph, *node, needs, {0});
    const absl::Status status = op.gradient(grad);
    EXPECT_TRUE(status.ok() || absl::StrContains(status.message(), "too large"))
        << Describe(test) << ": " << status << "\n"
        << ToText(graph);
    for (const auto& [i, value] : grad.grads()) {
      EXPECT_EQ(grad.type(value), grad.type(inputs[i])) << ToText(graph);
    }
  }
  EXPECT_GT(accepted, 3000);
}

}  // namespace
}  // namespace ebb::graph
