// nn.EmbeddingBag as the TorchScript exporter writes it, a loop over the bags, and loops that only
// look like it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/op.h"
#include "model/onnx_ops.h"
#include "tests/model/onnx_builder.h"

namespace ebb {
namespace {

using graph::Node;
using graph::Role;
using graph::Shape;
using ::testing::HasSubstr;
using testing::NodeOf;
using testing::OnnxBuilder;

const model::ImportOptions kAsExported = {.batch_size = 0};

// The loop's body. `offsets` and `ends` are lists of the graph around it.
model::onnx::GraphProto Body(const std::string& reduction, const std::string& offsets) {
  OnnxBuilder b;
  b.Input("turn", {}, graph::DType::kI64).Input("going", {}, graph::DType::kBool);
  b.Ints("axis", {0});
  b.Node("Gather", {offsets, "turn"}, {"begin"}).Node("Gather", {"ends", "turn"}, {"end"});
  b.Node("Unsqueeze", {"begin", "axis"}, {"begins"}).Node("Unsqueeze", {"end", "axis"}, {"stops"});
  b.Node("Slice", {"indices", "begins", "stops", "zero"}, {"bag"});
  b.Node("Gather", {"table", "bag"}, {"rows"});
  b.Node(reduction, {"rows"}, {"sum"}).With("axes", std::vector<int64_t>{0}).With("keepdims", 0);
  b.Node("Cast", {"yes"}, {"go_on"}).With("to", 9);
  b.Output("go_on").Output("sum");
  return b.proto().graph();
}

// Three bags of the rows of `table`; what is not said is constant.
OnnxBuilder Bags(const std::string& reduction, const std::vector<int64_t>& offsets,
                 const std::vector<int64_t>& ends) {
  OnnxBuilder b(12);
  b.Ramp("table", {5, 2}).Input("indices", {6}, graph::DType::kI64);
  b.Ints("offsets", offsets)
      .Ints("ends", ends)
      .Ints("zero", {0})
      .Ints("bags", {3})
      .Ints("one", {1});
  b.Node("Cast", {"one"}, {"yes"}).With("to", 9);
  b.Node("Loop", {"bags", "yes"}, {"y"}).Output("y");
  auto* body = b.proto().mutable_graph()->mutable_node(1)->add_attribute();
  body->set_name("body");
  body->set_type(model::onnx::AttributeProto::GRAPH);
  *body->mutable_g() = Body(reduction, "offsets");
  return b;
}

TEST(ImportBags, ALoopOverBagsIsOneOp) {
  for (const auto& [reduction, mode] :
       {std::pair<const char*, const char*>{"ReduceSum", "sum"}, {"ReduceMean", "mean"}}) {
    const auto m = Bags(reduction, {0, 2, 2}, {2, 2, 6}).Import(kAsExported);
    ASSERT_TRUE(m.ok()) << m.status();
    const Node& bag = NodeOf(m->graph, "EmbeddingBag");
    EXPECT_EQ(bag.attrs.Str("mode"), mode);
    EXPECT_EQ(bag.attrs.Int("include_last_offset", 0), 1);
    EXPECT_EQ(m->graph.value(bag.inputs[0]).role, Role::kParam);
    EXPECT_EQ(m->graph.value(bag.inputs[0]).name, "table");
    EXPECT_EQ(m->graph.value(bag.inputs[2]).type.shape, Shape({4}));
    EXPECT_EQ(m->graph.value(bag.outputs[0]).type.shape, Shape({3, 2}));
  }
}

// The offsets are an input; the ends are the offsets without the first.
OnnxBuilder Fed(int64_t first_end) {
  OnnxBuilder b = Bags("ReduceSum", {0}, {0});
  auto* graph = b.proto().mutable_graph();
  graph->mutable_initializer()->DeleteSubrange(1, 2);
  b.Input("offsets", {4}, graph::DType::kI64).Ints("first", {first_end}).Ints("last", {4});
  b.Node("Slice", {"offsets", "first", "last", "zero"}, {"ends"});
  return b;
}

TEST(ImportBags, OffsetsMayBeFed) {
  const auto m = Fed(1).Import(kAsExported);
  ASSERT_TRUE(m.ok()) << m.status();
  const Node& bag = NodeOf(m->graph, "EmbeddingBag");
  EXPECT_EQ(m->graph.value(bag.inputs[2]).name, "offsets");
  EXPECT_THAT(Fed(0).Error(kAsExported), HasSubstr("do not follow each other"));
}

TEST(ImportBags, BagsMustFollowEachOther) {
  EXPECT_THAT(Bags("ReduceSum", {0, 3, 2}, {2, 3, 6}).Error(kAsExported),
              HasSubstr("do not follow each other"));
}

TEST(ImportBags, OtherLoopsAreRefusedWithTheCallToUse) {
  EXPECT_THAT(Bags("ReduceMax", {0, 2, 2}, {2, 2, 6}).Error(kAsExported),
              HasSubstr("nn.Embedding(...)(x).sum(1)"));
  OnnxBuilder b = Bags("ReduceSum", {0, 2, 2}, {2, 2, 6});  // stops after the first bag
  auto* node = b.proto().mutable_graph()->mutable_node(1);
  auto* body = node->mutable_attribute(0)->mutable_g();
  body->mutable_node(body->node_size() - 1)->set_input(0, "begin");
  EXPECT_THAT(b.Error(kAsExported), HasSubstr("Control flow has no fixed schedule"));
}

TEST(ImportBags, ABranchOnASizeIsAvoidedByAnIndex) {
  EXPECT_THAT(model::AdviceFor("If"), HasSubstr("x.squeeze(dim) becomes an If"));
}

}  // namespace
}  // namespace ebb
