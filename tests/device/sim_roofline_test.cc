// Times and shares of single kernels, worked out by hand on a profile of round numbers.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "device/sim/roofline.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/device/sim_profiles.h"

namespace ebb::device {
namespace {

using ebb::testing::PlainProfile;

// The graph of the text; its last node is what the tests look at.
graph::Graph Parse(const std::string& text) {
  auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}
Grid LastGrid(const std::string& text) {
  const graph::Graph graph = Parse(text);
  return GridOf(PlainProfile(), graph, graph.nodes.back());
}
KernelCost LastCost(const std::string& text, const SimProfile& profile = PlainProfile()) {
  const graph::Graph graph = Parse(text);
  return CostAlone(profile, graph, graph.nodes.back());
}
Bytes LastWorkspace(const std::string& text, const SimProfile& profile = PlainProfile()) {
  const graph::Graph graph = Parse(text);
  return WorkspaceOf(profile, graph, graph.nodes.back());
}

const std::string kConv3x3 = "{strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=1}";

TEST(SimGrid, TheLastWaveOfAGridIsPartlyEmpty) {
  EXPECT_DOUBLE_EQ((Grid{.blocks = 5, .slots = 20}).Efficiency(), 0.25);
  EXPECT_DOUBLE_EQ((Grid{.blocks = 20, .slots = 20}).Efficiency(), 1);
  EXPECT_DOUBLE_EQ((Grid{.blocks = 21, .slots = 20}).Efficiency(), 21.0 / 40);
  EXPECT_DOUBLE_EQ((Grid{.blocks = 60, .slots = 20}).Efficiency(), 1);
}

TEST(SimGrid, AProductHasATileFor128RowsAnd64Columns) {
  const Grid grid = LastGrid("a = input f32[300,32]\nb = param f32[32,130]\ny = MatMul(a, b)");
  EXPECT_EQ(grid.blocks, 3 * 3);
  EXPECT_EQ(grid.slots, 10 * 2);
}

TEST(SimGrid, OneMatrixForAWholeBatchMakesOneLongProduct) {
  EXPECT_EQ(LastGrid("a = input f32[4,32,8]\nb = param f32[8,64]\ny = MatMul(a, b)").blocks, 1);
  EXPECT_EQ(LastGrid("a = input f32[4,32,8]\nb = input f32[4,8,64]\ny = MatMul(a, b)").blocks, 4);
}

TEST(SimGrid, ALongReductionIsSplitUntilOneWaveIsFull) {
  // Two tiles; depths of 2,999, 3,000 and a million with parts of at least 1,000.
  const auto blocks = [](int depth) {
    return LastGrid(absl::StrCat("a = input f32[", depth, ",128]\nb = input f32[", depth,
                                 ",128]\ny = MatMul(a, b) {trans_a=1}"))
        .blocks;
  };
  EXPECT_EQ(blocks(999), 2);
  EXPECT_EQ(blocks(2999), 4);
  EXPECT_EQ(blocks(3000), 6);
  EXPECT_EQ(blocks(1000000), 20);
}

TEST(SimGrid, AConvolutionIsAProductOverPositions) {
  const std::string x = "x = input f32[2,8,16,16]\nw = param f32[96,8,3,3]\n";
  const Grid forward = LastGrid(x + "y = Conv(x, w) " + kConv3x3);
  EXPECT_EQ(forward.blocks, 4 * 2);  // 2 x 16 x 16 positions, 96 channels
  const std::string dy = x + "dy = input f32[2,96,16,16]\n";
  const std::string attrs = kConv3x3.substr(0, kConv3x3.size() - 1);
  const Grid input =
      LastGrid(dy + "dx = ConvGradInput(dy, w) " + attrs + ", input_shape=[2,8,16,16]}");
  EXPECT_EQ(input.blocks, 4 * 1);  // as many positions, 8 channels
  const Grid weight =
      LastGrid(dy + "dw = ConvGradWeight(dy, x) " + attrs + ", weight_shape=[96,8,3,3]}");
  EXPECT_EQ(weight.blocks, 1 * 2);  // 96 rows, 8 x 9 columns; 512 positions are not split
}

TEST(SimGrid, ConvolutionsAndTheirGradientsHaveASplitDepthOfTheirOwn) {
  // Reductions of 9 x 1,000 and more in parts of at least 4,000; a tile each without a split.
  const std::string x = "x = input f32[1,1000,8,8]\nw = param f32[64,1000,3,3]\n";
  EXPECT_EQ(LastGrid(x + "y = Conv(x, w) " + kConv3x3).blocks, 2);
  const std::string attrs = kConv3x3.substr(0, kConv3x3.size() - 1);
  const std::string y = "dy = input f32[1,1000,8,8]\nw = param f32[1000,64,3,3]\n";
  EXPECT_EQ(LastGrid(y + "dx = ConvGradInput(dy, w) " + attrs + ", input_shape=[1,64,8,8]}").blocks,
            2);
  const std::string deep = "dy = input f32[2,8,80,50]\nx = input f32[2,4,80,50]\n";
  EXPECT_EQ(
      LastGrid(deep + "dw = ConvGradWeight(dy, x) " + attrs + ", weight_shape=[8,4,3,3]}").blocks,
      2);
  // A product of the same depth goes by the other constant.
  EXPECT_EQ(LastGrid("a = input f32[64,9000]\nb = param f32[9000,64]\ny = MatMul(a, b)").blocks, 9);
}

TEST(SimGrid, DepthwiseConvolutionsAndEverythingElseGoByElements) {
  const Grid depthwise = LastGrid(
      "x = input f32[1,32,16,16]\nw = param f32[32,1,3,3]\n"
      "y = Conv(x, w) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1], groups=32}");
  EXPECT_EQ(depthwise.blocks, 9);  // of 8,192 elements
  EXPECT_EQ(depthwise.slots, 10 * 5);
  EXPECT_EQ(LastGrid("x = input f32[50,100]\ny = Relu(x)").blocks, 5);
  // The larger of operand and result.
  EXPECT_EQ(LastGrid("x = input f32[50,100]\ny = ReduceSum(x) {axes=[0,1], keepdims=0}").blocks, 5);
}

TEST(SimCost, AProductTakesItsFlopsAtTheEfficiencyOfItsGrid) {
  // 5 tiles of 20; 2 x 640 x 64 x 1000 flops = 81.92 us at full speed; 0.26 MB = 263.84 us.
  SimProfile profile = PlainProfile();
  profile.bandwidth_gbs = 100;
  const KernelCost cost =
      LastCost("a = input f32[640,500]\nb = input f32[500,64]\ny = MatMul(a, b)", profile);
  EXPECT_DOUBLE_EQ(cost.micros, 2.0 * 640 * 64 * 500 / 1e6 / (5.0 / 20));
  EXPECT_DOUBLE_EQ(cost.slots, 0.25);
  EXPECT_DOUBLE_EQ(cost.flops, 0.25);  // all it does at a quarter of the speed
  const double bytes = 4.0 * (640 * 500 + 500 * 64 + 640 * 64);
  EXPECT_DOUBLE_EQ(cost.bandwidth, bytes / 1e5 / cost.micros);
}

TEST(SimCost, ARecurrentLayerIsAKernelAStep) {
  // A tile of 20; 2 x 128 x 64 x 16 flops of the product and 60 a unit around it.
  SimProfile profile = PlainProfile();
  profile.bandwidth_gbs = 1000;
  profile.kernel_overhead_us = 100;
  const std::string layer = "r = param f32[64,16]\npre = input f32[4,128,64]\n";
  const double step = (2.0 * 128 * 64 * 16 + 60.0 * 128 * 16) / 1e6 * 20;
  const KernelCost forward =
      LastCost(layer + "y, cells, gates = Lstm(pre, r) {gates=\"ifco\"}", profile);
  EXPECT_DOUBLE_EQ(forward.micros, 4 * (100 + step));
  EXPECT_NEAR(forward.slots, 1.0 / 20, 1e-12);
  EXPECT_NEAR(forward.flops, step / 20 / (100 + step), 1e-12);
  // Backward: as large a product a step, and one of 64 x 16 over 512 rows.
  const std::string states =
      "y = input f32[4,128,16]\ncells = input f32[4,128,16]\ndy = input f32[4,128,16]\n";
  const KernelCost backward = LastCost(
      layer + states + "dpre, dr, dh0, dc0 = LstmGrad(pre, y, cells, r, dy) {gates=\"ifco\"}",
      profile);
  const double back = (2.0 * 128 * 64 * 16 + 45.0 * 128 * 16) / 1e6 * 20;
  const double weights = 2.0 * 64 * 16 * 512 / 1e6 * 20;
  EXPECT_NEAR(backward.micros, 4 * (100 + back) + 100 + weights, 1e-9);
}

TEST(SimCost, AnElementwiseKernelTakesItsBytes) {
  const KernelCost cost = LastCost("x = input f32[25000]\ny = Relu(x)");
  EXPECT_DOUBLE_EQ(cost.micros, 2 * 100000 / 1e3);
  EXPECT_DOUBLE_EQ(cost.bandwidth, 1);
  EXPECT_DOUBLE_EQ(cost.slots, 0.5);
}

TEST(SimCost, TheOverheadIsOnTopAndLowersTheShares) {
  SimProfile profile = PlainProfile();
  profile.kernel_overhead_us = 200;
  const KernelCost cost = LastCost("x = input f32[25000]\ny = Relu(x)", profile);
  EXPECT_DOUBLE_EQ(cost.micros, 400);
  EXPECT_DOUBLE_EQ(cost.bandwidth, 0.5);
}

TEST(SimCost, ViewsCostNothing) {
  for (const char* view : {"y = Reshape(x) {shape=[100]}", "y = Identity(x)"}) {
    EXPECT_EQ(LastCost(absl::StrCat("x = input f32[10,10]\n", view)).micros, 0) << view;
  }
}

TEST(SimCost, EveryShareIsAShare) {
  const KernelCost cost =
      LastCost("x = input f32[7,3,20,20]\nw = param f32[5,3,3,3]\ny = Conv(x, w) " + kConv3x3);
  for (const double share : {cost.slots, cost.flops, cost.bandwidth}) {
    EXPECT_GT(share, 0);
    EXPECT_LE(share, 1 + 1e-12);
  }
}

TEST(SimWorkspace, IsOfBothActivationsForThreeByThreeAndOfTheOutputElse) {
  const std::string x = "x = input f32[2,8,16,16]\n";
  EXPECT_EQ(LastWorkspace(x + "w = param f32[4,8,3,3]\ny = Conv(x, w) " + kConv3x3),
            Bytes(int64_t{4} * 2 * (8 + 4) * 256));
  EXPECT_EQ(LastWorkspace(x + "w = param f32[4,8,3,3]\ny = Conv(x, w) "
                              "{strides=[2,2], pads=[1,1,1,1], dilations=[1,1], groups=1}"),
            Bytes(int64_t{4} * 2 * 4 * 64));
  EXPECT_EQ(LastWorkspace(x + "w = param f32[4,8,1,1]\ny = Conv(x, w) "
                              "{strides=[1,1], pads=[0,0,0,0], dilations=[1,1], groups=1}"),
            Bytes(0));
  EXPECT_EQ(LastWorkspace(x + "y = Relu(x)"), Bytes(0));
  // The gradient of a strided convolution: dy, not what it makes.
  EXPECT_EQ(LastWorkspace(x + "dy = input f32[2,4,8,8]\ndw = ConvGradWeight(dy, x) {strides=[2,2], "
                              "pads=[1,1,1,1], dilations=[1,1], groups=1, weight_shape=[4,8,3,3]}"),
            Bytes(int64_t{4} * 2 * 4 * 64));
}

TEST(SimWorkspace, HasACap) {
  EXPECT_EQ(LastWorkspace("x = input f32[64,8,64,64]\nw = param f32[8,8,3,3]\ny = Conv(x, w) " +
                          kConv3x3),
            MiB(1));
}

TEST(SimCopy, CrossesTheBusAtItsRateAfterItsLatency) {
  SimProfile profile = PlainProfile();
  profile.copy_latency_us = 3;
  EXPECT_DOUBLE_EQ(BusMicros(profile, Bytes(5000)), 3 + 50);
  const KernelCost inside = DeviceCopyCost(profile, Bytes(5000));
  EXPECT_DOUBLE_EQ(inside.micros, 10);  // read and written
  EXPECT_DOUBLE_EQ(inside.bandwidth, 1);
}

}  // namespace
}  // namespace ebb::device
