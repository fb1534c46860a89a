// Micro-batches train as the whole batch does, but for the order of sums: parameters, slots and
// metrics of several steps, in double on the reference device and in float on the cpu device.
#include "graph/micro_batch.h"

#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "device/device.h"
#include "graph/op.h"
#include "graph/recompute.h"
#include "graph/text.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::Graph;
using graph::LossKind;
using graph::Role;

constexpr int kSteps = 4;
constexpr int64_t kBatch = 12;

struct Net {
  std::string name;
  std::string text;  // "$N": the batch, "$R": its rows of tokens, "$T": f32 or f64
  LossKind loss = LossKind::kCrossEntropy;
  bool adam = false;
  std::vector<graph::MetricSpec> metrics = {};
  double label_smoothing = 0;
  graph::ClipSpec clip = {};
};
void PrintTo(const Net& net, std::ostream* out) { *out << net.name; }

constexpr int64_t kTokens = 3;

std::vector<Net> Nets() {
  const graph::MetricSpec accuracy{graph::MetricKind::kAccuracy}, mse{graph::MetricKind::kMse};
  const std::string mlp = R"(
    x = input $T[$N,8]; w1 = param $T[8,16]; b1 = param $T[16]; w2 = param $T[16,5]
    h = Gemm(x, w1, b1); r = Tanh(h); y = Gemm(r, w2)
  )";
  // Labels that are views of a part of the inputs; a weight that is used twice.
  const std::string tokens = R"(
    ids = input i64[$N,4]; table = param $T[5,6]; scale = param $T[6]; bias = param $T[6]
    now = Slice(ids) {axes=[1], starts=[0], ends=[3], steps=[1]}
    next = Slice(ids) {axes=[1], starts=[1], ends=[4], steps=[1]}
    labels = Reshape(next) {shape=[$R]}
    e = Gather(table, now) {axis=0}
    n, mean, inv = LayerNorm(e, scale, bias) {axis=2}
    g = Gelu(n)
    rows = Reshape(g) {shape=[$R,6]}
    logits = MatMul(rows, table) {trans_b=1}
  )";
  return {
      {"cross_entropy", mlp + "output y", LossKind::kCrossEntropy, false, {accuracy}},
      {"smoothed", mlp + "output y", LossKind::kCrossEntropy, true, {accuracy}, 0.1},
      {"clipped", mlp + "output y", LossKind::kCrossEntropy, false, {accuracy}, 0, {.norm = 0.1}},
      {"cut", mlp + "output y", LossKind::kCrossEntropy, false, {accuracy}, 0, {.value = 0.02}},
      {"squares", mlp + "output y", LossKind::kMse, true, {mse}},
      {"binary", mlp + "output y", LossKind::kBceWithLogits, false, {accuracy}},
      {"next_token", tokens + "l, p = CrossEntropy(logits, labels) {ignore_index=2}\n output l",
       LossKind::kGraphOutput, true},
      {"log_prob",
       tokens + "lp = LogSoftmax(logits) {axis=1}\n l = NllLoss(lp, labels) {ignore_index=2}\n"
                "output l",
       LossKind::kGraphOutput},
      {"sum", mlp + "s = Mul(y, y)\n l = ReduceSum(s) {axes=[0,1], keepdims=0}\n output l",
       LossKind::kGraphOutput},
      // Read by another node, and not a scalar by shape.
      {"mean",
       mlp + "s = Mul(y, y)\n m = ReduceMean(s) {axes=[0,1]}\n"
             "l = Reshape(m) {shape=[1]}\n output l",
       LossKind::kGraphOutput, true},
      {"convolution",
       R"(
         x = input $T[$N,3,8,8]; w1 = param $T[6,3,3,3]; b1 = param $T[6]
         w2 = param $T[4,6,3,3]; w3 = param $T[5,4]
         c1 = Conv(x, w1, b1) {strides=[1,1], pads=[1,1,1,1], dilations=[1,1]}
         r1 = Relu(c1)
         c2 = Conv(r1, w2) {strides=[2,2], pads=[1,1,1,1], dilations=[1,1]}
         r2 = Relu(c2)
         p = ReduceMean(r2) {axes=[2,3], keepdims=0}
         y = Gemm(p, w3) {trans_b=1}
         output y
       )",
       LossKind::kCrossEntropy,
       false,
       {accuracy}},
  };
}

absl::StatusOr<Graph> Forward(const Net& net, int64_t batch, absl::string_view type) {
  return graph::ParseGraph(absl::StrReplaceAll(
      net.text,
      {{"$N", absl::StrCat(batch)}, {"$R", absl::StrCat(batch * kTokens)}, {"$T", type}}));
}

graph::TrainingOptions Options(const Net& net) {
  graph::TrainingOptions options;
  options.loss.kind = net.loss;
  options.loss.label_smoothing = net.label_smoothing;
  options.metrics = net.metrics;
  options.clip = net.clip;
  if (net.adam) {
    options.optimizer.kind = graph::OptimizerKind::kAdam;
  } else {
    options.optimizer.momentum = 0.9;
  }
  return options;
}

// A batch; some labels do not count, and more so in its first half.
graph::HostTensor Batch(const graph::Value& value, uint64_t seed) {
  if (graph::IsFloat(value.type.dtype)) {
    return RandomTensor(value.type, seed, absl::StrContains(value.name, "label") ? 0 : -1, 1);
  }
  graph::HostTensor tensor = RandomTensor(value.type, seed, 0, 5);
  const bool labels = value.name == "label";
  for (size_t i = 0; labels && i < tensor.as<int64_t>().size(); i += i < 4 ? 1 : 5) {
    tensor.as<int64_t>()[i] = i % 2 == 0 ? -100 : 7;  // ignored, out of range
  }
  return tensor;
}

// Parameters, slots and metrics by name, after every step.
std::vector<graph::TensorMap> Train(device::Device& device, const Graph& graph) {
  std::vector<graph::TensorMap> states;
  auto runner = GraphRunner::Make(device, graph, Placement::kShared);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return states;
  for (int step = 0; step <= kSteps; ++step) {
    uint64_t seed = 1;
    for (const graph::Value& value : graph.values) {
      graph::HostTensor now;
      if (value.role == Role::kInput && step > 0) {
        now = Batch(value, 100 * step + ++seed);
      } else if (value.role == Role::kParam && step == 0) {
        now = RandomTensor(value.type, ++seed, -0.5, 0.5);
      } else if (value.name == "ebb.hyper") {
        now = FromDoubles(value.type, {0.05, double(step), 0, 0});
      } else if (value.name == "ebb.rng") {
        now = FromDoubles(value.type, {17, double(step)});
      } else {
        continue;
      }
      EXPECT_TRUE((*runner)->Set(value.name, now).ok());
    }
    if (step == 0) continue;
    const absl::Status ran = (*runner)->Run();
    EXPECT_TRUE(ran.ok()) << ran;
    states.emplace_back();
    for (const graph::Value& value : graph.values) {
      if (value.role == Role::kParam || value.role == Role::kOptState ||
          value.role == Role::kMetric) {
        states.back()[value.name] = (*runner)->Get(value.id);
      }
    }
  }
  return states;
}

void ExpectNear(const std::vector<graph::TensorMap>& whole,
                const std::vector<graph::TensorMap>& parts, double tolerance) {
  ASSERT_EQ(whole.size(), static_cast<size_t>(kSteps));
  ASSERT_EQ(parts.size(), whole.size());
  for (size_t step = 0; step < whole.size(); ++step) {
    ASSERT_EQ(parts[step].size(), whole[step].size());
    for (const auto& [name, tensor] : whole[step]) {
      ASSERT_TRUE(parts[step].contains(name)) << name;
      const std::vector<double> a = ToDoubles(tensor), b = ToDoubles(parts[step].at(name));
      ASSERT_EQ(a.size(), b.size()) << name;
      double scale = 0;
      for (double value : a) scale = std::max(scale, std::abs(value));
      // Metrics are floats, whatever the model is.
      const double most = absl::StartsWith(name, "metric/") && tolerance < 1e-6 ? 1e-6 : tolerance;
      for (size_t i = 0; i < a.size(); ++i) {
        ASSERT_NEAR(a[i], b[i], most * (scale + 1e-3))
            << name << "[" << i << "], step " << step + 1;
      }
    }
  }
}

class MicroBatches : public ::testing::TestWithParam<std::tuple<Net, int>> {
 protected:
  void Compare(const std::string& device_name, absl::string_view type, double tolerance) {
    const auto& [net, parts] = GetParam();
    const auto device = *device::OpenDevice(device_name, {});
    const auto forward = Forward(net, kBatch, type);
    const auto part = Forward(net, kBatch / parts, type);
    ASSERT_TRUE(forward.ok() && part.ok()) << forward.status() << part.status();
    auto whole = graph::BuildTrainingGraph(*forward, Options(net));
    auto micro =
        graph::BuildMicroBatchedGraph(*part, Options(net), {.batch = kBatch, .parts = parts});
    ASSERT_TRUE(whole.ok() && micro.ok()) << whole.status() << micro.status();
    ASSERT_TRUE(graph::Verify(*micro).ok()) << graph::Verify(*micro) << graph::ToText(*micro);
    whole = device->Lower(*std::move(whole));
    micro = device->Lower(*std::move(micro));
    ASSERT_TRUE(whole.ok() && micro.ok()) << whole.status() << micro.status();
    ASSERT_TRUE(graph::Verify(*micro).ok()) << graph::Verify(*micro);
    ExpectNear(Train(*device, *whole), Train(*device, *micro), tolerance);
  }
};

TEST_P(MicroBatches, TrainAsTheWholeBatchInDouble) { Compare("ref", "f64", 1e-11); }
TEST_P(MicroBatches, TrainAsTheWholeBatchOnTheCpu) { Compare("cpu", "f32", 2e-4); }

INSTANTIATE_TEST_SUITE_P(
    All, MicroBatches, ::testing::Combine(::testing::ValuesIn(Nets()), ::testing::Values(2, 3, 12)),
    [](const auto& info) {
      return absl::StrCat(std::get<0>(info.param).name, "_in_", std::get<1>(info.param));
    });

constexpr char kDropout[] = R"(
  x = input f32[$N,64]; ebb.rng = scalar i64[2]; w1 = param f32[64,64]; w2 = param f32[64,5]
  h = MatMul(x, w1); d, mask = Dropout(h, ebb.rng) {ratio=0.5, stream=4}
  g = Gelu(d); e, mask2 = Dropout(g, ebb.rng) {ratio=0.5, stream=9}
  w3 = param f32[64,64]; h3 = MatMul(e, w3); g3 = Gelu(h3)
  y = MatMul(g3, w2)
  output y
)";

TEST(MicroBatchDropout, EveryPartDrawsOtherNumbers) {
  const auto device = *device::OpenDevice("cpu", {});
  const auto part = Forward({"dropout", kDropout}, kBatch / 3, "f32");
  ASSERT_TRUE(part.ok()) << part.status();
  const auto micro = graph::BuildMicroBatchedGraph(*part, {}, {.batch = kBatch, .parts = 3});
  ASSERT_TRUE(micro.ok()) << micro.status();
  graph::TensorMap feeds;
  for (const graph::Value& value : micro->values) {
    if (value.role == Role::kParam || value.role == Role::kInput) {
      feeds[value.name] = RandomTensor(value.type, 3, 0, 1);
    } else if (value.role == Role::kScalar) {
      feeds[value.name] =
          FromDoubles(value.type, std::vector<double>(value.name == "ebb.rng" ? 2 : 4, 1));
    }
  }
  const auto values = RunGraph(*device, *micro, feeds);
  ASSERT_TRUE(values.ok()) << values.status();
  std::vector<std::vector<double>> masks;
  for (int p = 0; p < 3; ++p) {
    for (const char* mask : {"mask", "mask2"}) {
      masks.push_back(ToDoubles(values->at(absl::StrCat("micro", p, "/", mask))));
    }
  }
  for (size_t i = 0; i < masks.size(); ++i) {
    for (size_t j = i + 1; j < masks.size(); ++j) {
      size_t same = 0;
      for (size_t k = 0; k < masks[i].size(); ++k) same += masks[i][k] == masks[j][k] ? 1 : 0;
      // Half of them, give or take seven standard deviations.
      EXPECT_NEAR(static_cast<double>(same) / static_cast<double>(masks[i].size()), 0.5, 0.22);
    }
  }
}

TEST(MicroBatchDropout, RecomputeChangesNoBit) {
  const auto device = *device::OpenDevice("cpu", {});
  const Net net{"dropout", kDropout};
  const auto part = Forward(net, 128, "f32");
  ASSERT_TRUE(part.ok()) << part.status();
  const auto micro =
      graph::BuildMicroBatchedGraph(*part, Options(net), {.batch = 3 * 128, .parts = 3});
  ASSERT_TRUE(micro.ok()) << micro.status();
  const auto again = graph::Recompute(
      *micro, {.most_cost = 1, .cost = [](const Graph& g, const graph::Node& node) {
                 return static_cast<double>(graph::CostOf(g, node).bytes.count());
               }});
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_TRUE(graph::Verify(again->graph).ok()) << graph::Verify(again->graph);
  EXPECT_FALSE(again->values.empty());
  const auto once = Train(*device, *micro), twice = Train(*device, again->graph);
  for (size_t step = 0; step < once.size(); ++step) {
    for (const auto& [name, tensor] : once[step]) {
      EXPECT_EQ(tensor.data, twice[step].at(name).data) << name;
    }
  }
}

}  // namespace
}  // namespace ebb::testing
