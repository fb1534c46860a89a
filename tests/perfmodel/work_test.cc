#include "perfmodel/work.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/op.h"
#include "graph/text.h"
#include "graph/training.h"
#include "model/zoo/zoo.h"
#include "perfmodel/hardware.h"

namespace ebb::perfmodel {
namespace {

using graph::Graph;
using ::testing::HasSubstr;

// Of the last node of a graph.
Work LastWork(absl::string_view text) {
  absl::StatusOr<Graph> graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  absl::StatusOr<Work> work = WorkOf(*graph, graph->nodes.back());
  EXPECT_TRUE(work.ok()) << work.status();
  return work.value_or(Work());
}

TEST(WorkTest, EveryOpOfTheTableBelongsToAFamily) {
  for (const graph::OpDef* op : graph::AllOps()) {
    EXPECT_TRUE(FamilyOf(op->name).ok()) << FamilyOf(op->name).status();
  }
  EXPECT_THAT(FamilyOf("Magic").status().message(), HasSubstr("Magic"));
}

TEST(WorkTest, ProductsAreReadAsRowsColumnsAndDepth) {
  const Work gemm =
      LastWork("a = input f32[32,64]; w = param f32[10,64]; y = Gemm(a, w, -) {trans_b=1}");
  EXPECT_EQ(ToString(gemm), "gemm f32 32x10x64");
  EXPECT_EQ(gemm.flops, 2.0 * 32 * 10 * 64);
  EXPECT_EQ(gemm.bytes, 4.0 * (32 * 64 + 10 * 64 + 32 * 10));
  EXPECT_EQ(
      ToString(LastWork("a = input f32[8,12,64,32]; b = input f32[8,12,32,16]; y = MatMul(a, b)")),
      "batched_gemm f32 96*64x16x32");
  EXPECT_EQ(ToString(LastWork("a = input f32[8,12,64]; b = param f32[64,16]; y = MatMul(a, b)")),
            "gemm f32 96x16x64");
  EXPECT_EQ(ToString(LastWork(
                "a = input f32[5,64,8]; b = input f32[5,64,16]; y = MatMul(a, b) {trans_a=1}")),
            "batched_gemm f32 5*8x16x64");
}

TEST(WorkTest, ConvolutionsAreReadAsProductsOfEachDirection) {
  const std::string attrs = "strides=[2,2], pads=[1,1,1,1], dilations=[1,1], groups=2";
  EXPECT_EQ(ToString(LastWork("x = input f32[4,6,9,9]; w = param f32[8,3,3,3]; y = Conv(x, w) {" +
                              attrs + "}")),
            "conv f32 2*100x4x27 window 9 stride 2");
  EXPECT_EQ(ToString(LastWork(
                "d = input f32[4,8,5,5]; w = param f32[8,3,3,3]; y = ConvGradInput(d, w) {" +
                attrs + ", input_shape=[4,6,9,9]}")),
            "conv_grad_input f32 2*324x3x36 window 9 stride 2");
  EXPECT_EQ(ToString(LastWork(
                "d = input f32[4,8,5,5]; x = input f32[4,6,9,9]; y = ConvGradWeight(d, x) {" +
                attrs + ", weight_shape=[8,3,3,3]}")),
            "conv_grad_weight f32 2*4x27x100 window 9 stride 2");
}

TEST(WorkTest, RowsAreReadAsRowsAndLength) {
  EXPECT_EQ(ToString(LastWork("x = input f32[4,8,16]; y = Softmax(x) {axis=1}")),
            "softmax f32 64x8x1");
  EXPECT_EQ(ToString(LastWork("x = input f32[4,8,16]; s = param f32[16]; b = param f32[16]; "
                              "y = LayerNorm(x, s, b) {axis=2}")),
            "norm f32 32x16x1");
  EXPECT_EQ(ToString(LastWork("x = input f32[4,8,16]; y = ReduceSum(x) {axes=[2]}")),
            "reduction f32 32x16x1");
  EXPECT_EQ(ToString(LastWork("x = input f32[4,8]; y = Relu(x)")), "elementwise f32 32x1x1");
}

TEST(WorkTest, LookUpsReadTheRowsThatTheyTake) {
  const Work work = LastWork(
      "w = param f32[1000,16]; i = input i64[12]; o = input i64[4]; "
      "y = EmbeddingBag(w, i, o) {mode=\"sum\"}");
  EXPECT_EQ(ToString(work), "gather f32 4*12x16x1000");
  EXPECT_EQ(work.bytes, 12 * 16 * 4 + 12 * 8 + 4 * 16 * 4);
}

TEST(WorkTest, ViewsHaveNone) {
  const Work work = LastWork("x = input f32[4,8]; y = Reshape(x) {shape=[32]}");
  EXPECT_EQ(work.flops, 0);
  EXPECT_EQ(work.bytes, 0);
}

// What a step of a real model does is all read, and nothing of it is left without size.
TEST(WorkTest, EveryNodeOfATrainedModelHasWork) {
  for (const model::ZooEntry& entry : model::Zoo()) {
    absl::StatusOr<model::ZooModel> zoo = model::BuildZooModel(entry.name, 2);
    ASSERT_TRUE(zoo.ok()) << zoo.status();
    absl::StatusOr<Graph> graph =
        BuildTrainingGraph(zoo->graph, {.loss = zoo->loss, .optimizer = zoo->optimizer});
    ASSERT_TRUE(graph.ok()) << graph.status();
    for (const graph::Node& node : graph->nodes) {
      absl::StatusOr<Work> work = WorkOf(*graph, node);
      ASSERT_TRUE(work.ok()) << work.status();
      if (node.op->is_view) continue;
      EXPECT_GT(work->bytes, 0) << entry.name << " " << node.name;
      EXPECT_GT(work->batch * work->m * work->n * work->k, 0) << entry.name << " " << node.name;
      if (!IsProduct(work->family)) continue;
      const double volume = 2.0 * static_cast<double>(work->batch) * static_cast<double>(work->m) *
                            static_cast<double>(work->n) * static_cast<double>(work->k);
      EXPECT_GE(volume, 0.9 * work->flops) << entry.name << " " << node.name << ToString(*work);
    }
  }
}

TEST(HardwareTest, TellsWhatThereIs) {
  EXPECT_EQ(FindHardware("NVIDIA H200")->key, "h200-141gb");
  EXPECT_THAT(FindHardware("abacus").status().message(), HasSubstr("a100-80gb"));
}

}  // namespace
}  // namespace ebb::perfmodel
