#include "graph/tf32.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "graph/micro_batch.h"
#include "graph/op.h"
#include "graph/recompute.h"
#include "tests/graph/training_graphs.h"

namespace ebb::graph {
namespace {

using testing::AllOf;
using testing::Each;
using testing::SizeIs;

constexpr char kNet[] =
    "x = input f32[8,3,6,6]; t = input i64[8]; k = param f32[4,3,3,3]; kb = param f32[4]\n"
    "u = param f32[4,2,2,2]; w = param f32[288,5]; v = param f32[5,6]; b = param f32[6]\n"
    "c = Conv(x, k, kb) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1]}; r = Relu(c)\n"
    "d = ConvGradInput(r, u) {strides=[2,2], pads=[0,0,0,0], dilations=[1,1], "
    "input_shape=[8,2,12,12]}\n"
    "f = Reshape(d) {shape=[8,288]}; h = MatMul(f, w); g = Sigmoid(h); y = Gemm(g, v, b); output y";

TrainingOptions Options() {
  TrainingOptions options;
  options.loss = {.kind = LossKind::kCrossEntropy, .output = "y", .target = "t"};
  return options;
}

// The flag of each product and convolution.
std::vector<int64_t> Flags(const Graph& graph) {
  std::vector<int64_t> flags;
  for (const absl::string_view op : {"Conv", "ConvGradInput", "ConvGradWeight", "MatMul", "Gemm"}) {
    for (const Node* node : NodesOf(graph, op)) flags.push_back(node->attrs.Int("tf32", 0));
  }
  return flags;
}

TEST(Tf32, GradientsTakeItOver) {
  const auto plain = BuildTrainingGraph(Parse(kNet), Options());
  ASSERT_TRUE(plain.ok()) << plain.status();
  const auto allowed = BuildTrainingGraph(AllowTf32(Parse(kNet)), Options());
  ASSERT_TRUE(allowed.ok()) << allowed.status();
  EXPECT_TRUE(Verify(*allowed).ok()) << Verify(*allowed);
  // Four forward; both gradients of three, and the weight's of the first.
  EXPECT_THAT(Flags(*plain), AllOf(SizeIs(4 + 7), Each(0)));
  EXPECT_THAT(Flags(*allowed), AllOf(SizeIs(4 + 7), Each(1)));
  const auto read = ParseGraph(ToText(*allowed));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(Flags(*read), AllOf(SizeIs(4 + 7), Each(1)));
}

TEST(Tf32, MicroBatchesAndRecomputationKeepIt) {
  const auto parts =
      BuildMicroBatchedGraph(AllowTf32(Parse(kNet)), Options(), {.batch = 16, .parts = 2});
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_THAT(Flags(*parts), AllOf(SizeIs(2 * (4 + 7)), Each(1)));
  const auto training = BuildTrainingGraph(AllowTf32(Parse(kNet)), Options());
  ASSERT_TRUE(training.ok()) << training.status();
  const auto again = Recompute(
      *training, {.most_cost = 10, .cost = [](const Graph&, const Node&) { return 1.0; }});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->values.empty());
  EXPECT_THAT(Flags(again->graph), Each(1));
}

TEST(Tf32, IsForF32AndForProductsAlone) {
  const Graph graph = AllowTf32(
      Parse("x = input f32[4,8]; w = param f32[8,6]; p = Cast(x) {to=bf16}; q = Cast(w) {to=bf16}\n"
            "l = MatMul(p, q); y = Cast(l) {to=f32}; s = Relu(y); output s"));
  for (const Node& node : graph.nodes) EXPECT_FALSE(node.attrs.Has("tf32")) << node.name;
}

}  // namespace
}  // namespace ebb::graph
