// Micro-batches by their structure: order, accumulation, what is refused. What they compute is
// tested where there are kernels.
#include "graph/micro_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "graph/liveness.h"
#include "graph/op.h"
#include "graph/text.h"

namespace ebb::graph {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Graph Parse(absl::string_view text) {
  absl::StatusOr<Graph> graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : Graph();
}

Graph Micro(const Graph& part, const MicroBatchOptions& options,
            const TrainingOptions& training = {}) {
  absl::StatusOr<Graph> graph = BuildMicroBatchedGraph(part, training, options);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return Graph();
  EXPECT_TRUE(Verify(*graph).ok()) << Verify(*graph) << "\n" << ToText(*graph);
  return *std::move(graph);
}

std::string Refusal(absl::string_view text, const MicroBatchOptions& options,
                    absl::StatusCode code = absl::StatusCode::kUnimplemented,
                    LossKind loss = LossKind::kCrossEntropy) {
  TrainingOptions training;
  training.loss.kind = loss;
  const absl::Status status = BuildMicroBatchedGraph(Parse(text), training, options).status();
  EXPECT_EQ(status.code(), code) << status;
  return std::string(status.message());
}

std::string Mlp(int batch) {
  return absl::StrCat("x = input f32[", batch, R"(,64]
    w1 = param f32[64,32]; b1 = param f32[32]; w2 = param f32[32,3]
    h = Gemm(x, w1, b1); r = Relu(h); y = Gemm(r, w2)
    output y
  )");
}

Bytes Peak(const Graph& graph) {
  return LivePeak(ComputeLiveness(graph), static_cast<int>(graph.nodes.size()));
}

// "f" and "b" for runs of forward and backward, with the loss among the first and updates among the
// last.
std::string Waves(const Graph& graph) {
  std::string waves;
  for (const Node& node : graph.nodes) {
    const char wave = node.phase <= Phase::kLoss ? 'f' : 'b';
    if (waves.empty() || waves.back() != wave) waves += wave;
  }
  return waves;
}

TEST(MicroBatch, RunsForwardAndBackwardOfOnePartAfterAnother) {
  const Graph graph = Micro(Parse(Mlp(4)), {.batch = 12, .parts = 3});
  EXPECT_EQ(Waves(graph), "fbfbfb");
  EXPECT_EQ(graph.value(graph.Find("x")).type, (TensorType{DType::kF32, {12, 64}}));
  EXPECT_EQ(graph.value(graph.Find("label")).type, (TensorType{DType::kI64, {12}}));
  // Nodes mirror nodes of their own part: from the one to the other, forward ends once.
  for (const Node& node : graph.nodes) {
    if (!node.mirror.valid()) continue;
    Graph between;
    between.nodes.assign(graph.nodes.begin() + node.mirror.value(),
                         graph.nodes.begin() + node.id.value() + 1);
    EXPECT_EQ(Waves(between), "fb") << node.name;
  }
}

TEST(MicroBatch, UpdatesOnceAndRightAfterTheLastGradient) {
  const Graph graph = Micro(Parse(Mlp(4)), {.batch = 12, .parts = 3});
  std::vector<std::string> updated;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kUpdate) continue;
    updated.push_back(graph.value(node.inputs[0]).name);
    const Node& before = graph.node(NodeId(node.id.value() - 1));
    EXPECT_TRUE(before.phase == Phase::kUpdate || before.op->name == "AddN") << before.name;
    EXPECT_TRUE(absl::StartsWith(graph.value(node.inputs[1]).name, "micro2/sum/"));
  }
  EXPECT_THAT(updated, testing::UnorderedElementsAre("w1", "b1", "w2"));
}

TEST(MicroBatch, OneGradientOfAParameterLivesOn) {
  const Graph graph = Micro(Parse(Mlp(4)), {.batch = 16, .parts = 4});
  const Liveness liveness = ComputeLiveness(graph);
  Bytes parameters;
  for (const Value& value : graph.values) {
    if (value.role == Role::kParam) parameters += value.type.bytes();
  }
  // Between two parts: the batch, the gradients, the sums of the metrics.
  for (const Node& node : graph.nodes) {
    const int i = node.id.value();
    if (i == 0 || node.phase != Phase::kForward ||
        graph.node(NodeId(i - 1)).phase != Phase::kBackward) {
      continue;
    }
    Bytes gradients;
    for (const Buffer& buffer : liveness.buffers) {
      if (buffer.first < i && buffer.last >= i && buffer.cls == BufferClass::kTransient &&
          graph.node(NodeId(buffer.first)).phase == Phase::kBackward) {
        gradients += buffer.bytes;
      }
    }
    EXPECT_EQ(gradients, parameters) << "before node " << i;
  }
}

TEST(MicroBatch, HasTheResidentsAndMetricsOfTheWholeBatch) {
  TrainingOptions training;
  training.metrics = {{MetricKind::kAccuracy}, {MetricKind::kTopK, 2}};
  training.optimizer.kind = OptimizerKind::kAdam;
  const Graph micro = Micro(Parse(Mlp(4)), {.batch = 8, .parts = 2}, training);
  const auto whole = BuildTrainingGraph(Parse(Mlp(8)), training);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto kept = [](const Graph& graph) {
    std::set<std::string> kept;
    for (const Value& value : graph.values) {
      if (value.role == Role::kActivation || value.role == Role::kConstant) continue;
      kept.insert(absl::StrCat(Name(value.role), " ", value.name, " ", ToString(value.type)));
    }
    return kept;
  };
  EXPECT_EQ(kept(micro), kept(*whole));
}

TEST(MicroBatch, LowersThePeak) {
  const auto whole = BuildTrainingGraph(Parse(Mlp(4096)), {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const Graph two = Micro(Parse(Mlp(2048)), {.batch = 4096, .parts = 2});
  const Graph eight = Micro(Parse(Mlp(512)), {.batch = 4096, .parts = 8});
  EXPECT_LT(Peak(two), Peak(*whole));
  EXPECT_LT(Peak(eight), Peak(two));
}

TEST(MicroBatch, StreamsOfRandomNumbersDiffer) {
  const std::string text = R"(
    x = input f32[4,8]; ebb.rng = scalar i64[2]; w = param f32[8,3]
    d = Dropout(x, ebb.rng) {ratio=0.5, stream=3}; e = Dropout(d, ebb.rng) {ratio=0.5, stream=$S}
    y = MatMul(e, w); output y
  )";
  const auto with = [&](absl::string_view stream) {
    std::string result = text;
    return result.replace(result.find("$S"), 2, std::string(stream));
  };
  const Graph graph = Micro(Parse(with("0")), {.batch = 12, .parts = 3});
  std::vector<int64_t> streams;
  for (const Node& node : graph.nodes) {
    if (node.op->name == "Dropout") streams.push_back(node.attrs.Int("stream", -1));
  }
  EXPECT_THAT(streams, ElementsAre(3, 0, 7, 4, 11, 8));
  EXPECT_THAT(Refusal(with("4294967295"), {.batch = 12, .parts = 3}),
              HasSubstr("streams, up to 4294967295, leave no numbers for 3 parts"));
}

TEST(MicroBatch, RefusesBatchesThatItCannotCut) {
  const auto code = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Refusal(Mlp(4), {.batch = 13, .parts = 3}, code), HasSubstr("batch of 13 into 3"));
  EXPECT_THAT(Refusal(Mlp(4), {.batch = 4, .parts = 1}, code), HasSubstr("into 1"));
  EXPECT_THAT(
      Refusal(Mlp(4), {.batch = 15, .parts = 3}, code),
      HasSubstr("input 'x' is f32[4,64]; its first dimension must be the part's 5 samples"));
  EXPECT_THAT(Refusal("x = input f32[4,8]; t = input f32[]; w = param f32[8,3]\n"
                      "h = MatMul(x, w); y = Mul(h, t); output y",
                      {.batch = 8, .parts = 2}, code),
              HasSubstr("input 't'"));
}

TEST(MicroBatch, RefusesStatisticsOfTheBatch) {
  EXPECT_THAT(Refusal(R"(
                x = input f32[4,8]; w = param f32[8,3]
                s = param f32[3]; b = param f32[3]; m = buffer f32[3]; v = buffer f32[3]
                h = MatMul(x, w); y = BatchNorm(h, s, b, m, v); output y
              )",
                      {.batch = 8, .parts = 2}),
              HasSubstr("node 'y' (BatchNorm)"));
}

TEST(MicroBatch, RefusesLossesThatDoNotAddUp) {
  const std::string start =
      "x = input f32[4,8]; t = input i64[4]; w = param f32[8,3]; h = MatMul(x, w)\n";
  const auto refusal = [&](absl::string_view rest) {
    return Refusal(absl::StrCat(start, rest, "; output l"), {.batch = 8, .parts = 2},
                   absl::StatusCode::kUnimplemented, LossKind::kGraphOutput);
  };
  EXPECT_THAT(refusal("m = ReduceMean(h) {axes=[0,1], keepdims=0}; l = Exp(m)"),
              HasSubstr("node 'l' (Exp)"));
  EXPECT_THAT(refusal("c = constant f32[3] 1 2 3; l, p = CrossEntropy(h, t, c)"),
              HasSubstr("without class weights"));
  EXPECT_THAT(refusal("k = param f32[4]; i = Cast(k) {to=\"i64\"}; l, p = CrossEntropy(h, i)"),
              HasSubstr("labels that come from the batch, not from 'k'"));
}

TEST(MicroBatch, SaysWhenNothingIsTrained) {
  TrainingOptions training;
  training.optimizer.frozen = true;
  const absl::Status status =
      BuildMicroBatchedGraph(Parse(Mlp(4)), training, {.batch = 8, .parts = 2}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("nothing is trained"));
}

}  // namespace
}  // namespace ebb::graph
