#include "daemon/wire_graph.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <random>

#include "graph/verify.h"

namespace ebb::daemon {
namespace {

using testing::HasSubstr;

// x [4,3] -> Gemm -> BatchNorm (three outputs) -> Relu -> Gemm -> + constant -> logits
graph::Graph SmallGraph() {
  graph::Graph graph;
  const auto f32 = [](graph::Shape shape) {
    return graph::TensorType{graph::DType::kF32, std::move(shape)};
  };
  const ValueId x = graph.AddValue("x", f32({4, 3}), graph::Role::kInput);
  const ValueId w1 = graph.AddValue("fc1.weight", f32({5, 3}), graph::Role::kParam);
  const ValueId scale = graph.AddValue("bn.weight", f32({5}), graph::Role::kParam);
  const ValueId bias = graph.AddValue("bn.bias", f32({5}), graph::Role::kParam);
  const ValueId mean = graph.AddValue("bn.running_mean", f32({5}), graph::Role::kBuffer);
  const ValueId var = graph.AddValue("bn.running_var", f32({5}), graph::Role::kBuffer);
  const ValueId w2 = graph.AddValue("fc2.weight", f32({2, 5}), graph::Role::kParam);
  const ValueId c =
      graph.AddConstant("c", graph::HostTensor::Of<float>(graph::DType::kF32, {2}, {1, 2}));
  const auto add = [&](const char* op, const char* name, std::vector<ValueId> inputs,
                       graph::Attrs attrs) {
    const auto node = graph.AddNode(op, name, std::move(inputs), std::move(attrs));
    EXPECT_TRUE(node.ok()) << node.status();
    return graph.node(*node).outputs[0];
  };
  const ValueId h = add("Gemm", "h", {x, w1}, {{"trans_b", int64_t{1}}});
  const ValueId n = add("BatchNorm", "n", {h, scale, bias, mean, var}, {{"epsilon", 1e-5}});
  const ValueId r = add("Relu", "r", {n}, {});
  const ValueId p = add("Gemm", "p", {r, w2}, {{"trans_b", int64_t{1}}, {"alpha", 0.5}});
  graph.outputs.push_back(add("Add", "logits", {p, c}, {}));
  EXPECT_TRUE(graph::Verify(graph).ok());
  return graph;
}

TEST(WireGraph, ComesBackTheSame) {
  const graph::Graph graph = SmallGraph();
  const std::string bytes = GraphToWire(graph).SerializeAsString();
  const auto back = GraphFromBytes(bytes, 4);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(graph::ToText(*back), graph::ToText(graph));
  EXPECT_EQ(back->outputs.size(), 1u);
  EXPECT_EQ(back->value(back->Find("c")).data->as<float>()[1], 2);
}

TEST(WireGraph, KeepsTheNamesOfOutputsEvenIfTheyCrossAutomaticOnes) {
  v1::Graph wire = GraphToWire(SmallGraph());
  // Node 0 calls its output what node 1 would have been called.
  wire.mutable_nodes(0)->set_outputs(0, "n");
  wire.mutable_nodes(1)->set_inputs(0, "n");
  wire.mutable_nodes(1)->set_outputs(0, "h");
  wire.mutable_nodes(2)->set_inputs(0, "h");
  const auto graph = GraphFromWire(wire, 4);
  ASSERT_TRUE(graph.ok()) << graph.status();
  EXPECT_EQ(graph->value(graph->nodes[0].outputs[0]).name, "n");
  EXPECT_EQ(graph->value(graph->nodes[1].outputs[0]).name, "h");
}

struct Mistake {
  const char* what;
  void (*make)(v1::Graph*);
  const char* message;
};
const Mistake kMistakes[] = {
    {"version", [](v1::Graph* g) { g->set_version(2); }, "version 2"},
    {"no outputs", [](v1::Graph* g) { g->clear_outputs(); }, "no outputs"},
    {"unknown output", [](v1::Graph* g) { g->set_outputs(0, "q"); }, "'q'"},
    {"name used twice", [](v1::Graph* g) { g->mutable_values(1)->set_name("x"); }, "used twice"},
    {"reserved name", [](v1::Graph* g) { g->mutable_values(0)->set_name("ebb.hyper"); },
     "reserved"},
    {"no name", [](v1::Graph* g) { g->mutable_values(0)->clear_name(); }, "name"},
    {"no role", [](v1::Graph* g) { g->mutable_values(0)->clear_role(); }, "role"},
    {"odd role",
     [](v1::Graph* g) { g->mutable_values(0)->set_role(static_cast<v1::Graph::Role>(9)); }, "role"},
    {"no dtype", [](v1::Graph* g) { g->mutable_values(0)->clear_dtype(); }, "dtype"},
    {"odd dtype",
     [](v1::Graph* g) { g->mutable_values(0)->set_dtype(static_cast<v1::Graph::DType>(9)); },
     "dtype"},
    {"negative dimension", [](v1::Graph* g) { g->mutable_values(1)->set_shape(0, -1); },
     "dimension -1"},
    {"overflow",
     [](v1::Graph* g) {
       for (int i = 0; i < 6; ++i) g->mutable_values(1)->add_shape(1 << 30);
     },
     "too many elements"},
    {"rank",
     [](v1::Graph* g) {
       for (int i = 0; i < 9; ++i) g->mutable_values(1)->add_shape(1);
     },
     "8 dimensions"},
    {"another batch", [](v1::Graph* g) { g->mutable_values(0)->set_shape(0, 8); },
     "batch_size is 4"},
    {"scalar input", [](v1::Graph* g) { g->mutable_values(0)->clear_shape(); }, "batch_size"},
    {"integer parameter",
     [](v1::Graph* g) { g->mutable_values(1)->set_dtype(v1::Graph::DTYPE_I64); }, "f32 or f64"},
    {"data of a parameter", [](v1::Graph* g) { g->mutable_values(1)->set_data("x"); },
     "only constants"},
    {"too little data", [](v1::Graph* g) { g->mutable_values(7)->mutable_data()->pop_back(); },
     "bytes"},
    {"unknown op", [](v1::Graph* g) { g->mutable_nodes(0)->set_op("Fold"); }, "Fold"},
    {"unknown input", [](v1::Graph* g) { g->mutable_nodes(0)->set_inputs(0, "q"); }, "'q'"},
    {"input made later", [](v1::Graph* g) { g->mutable_nodes(0)->set_inputs(0, "logits"); },
     "nothing before"},
    {"absent input", [](v1::Graph* g) { g->mutable_nodes(0)->set_inputs(0, ""); }, "required"},
    {"too few inputs", [](v1::Graph* g) { g->mutable_nodes(0)->clear_inputs(); }, "inputs"},
    {"too few outputs", [](v1::Graph* g) { g->mutable_nodes(1)->mutable_outputs()->RemoveLast(); },
     "outputs"},
    {"output twice", [](v1::Graph* g) { g->mutable_nodes(1)->set_outputs(1, "n"); }, "twice"},
    {"output named like an input", [](v1::Graph* g) { g->mutable_nodes(1)->set_outputs(1, "x"); },
     "twice"},
    {"wrong shape", [](v1::Graph* g) { g->mutable_values(1)->set_shape(1, 7); }, "Gemm"},
    {"attribute of another type",
     [](v1::Graph* g) { (*g->mutable_nodes(0)->mutable_attrs())["trans_b"].set_s("yes"); },
     "trans_b"},
    {"attribute without a value",
     [](v1::Graph* g) { (*g->mutable_nodes(0)->mutable_attrs())["alpha"]; }, "alpha"},
    {"unknown attribute",
     [](v1::Graph* g) { (*g->mutable_nodes(0)->mutable_attrs())["colour"].set_i(1); }, "colour"},
    {"writes a parameter", [](v1::Graph* g) { g->mutable_nodes(1)->set_inputs(3, "bn.weight"); },
     "no buffer"},
    {"an update",
     [](v1::Graph* g) {
       v1::Graph::Node* node = g->mutable_nodes(0);
       node->set_op("SgdUpdate");
     },
     "no buffer"},
};

TEST(WireGraph, MistakesAreNamed) {
  for (const Mistake& mistake : kMistakes) {
    v1::Graph wire = GraphToWire(SmallGraph());
    mistake.make(&wire);
    const auto graph = GraphFromWire(wire, 4);
    ASSERT_FALSE(graph.ok()) << mistake.what;
    EXPECT_THAT(std::string(graph.status().message()), HasSubstr(mistake.message)) << mistake.what;
  }
  EXPECT_EQ(GraphFromBytes("not a graph", 4).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(WireGraph, RandomDamageNeverCrashes) {
  google::protobuf::SetLogHandler(nullptr);  // it reports every name that is not UTF-8
  const std::string good = GraphToWire(SmallGraph()).SerializeAsString();
  std::mt19937 random(20240131);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (int i = std::uniform_int_distribution<int>(1, 4)(random); i > 0; --i) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 8 == 0) bytes.resize(random() % bytes.size());
    const auto graph = GraphFromBytes(bytes, 4);
    if (graph.ok()) {
      ++accepted;
      EXPECT_TRUE(graph::Verify(*graph).ok()) << "round " << round;
    }
  }
  EXPECT_GT(accepted, 100) << "damage to names and numbers is often harmless";
}

}  // namespace
}  // namespace ebb::daemon
