// Steps over several batches: the mean of their gradients, and statistics that see one batch after
// another, as PyTorch's loop with loss / accumulate does. In double, against the batches by
// themselves.
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "device/device.h"
#include "graph/micro_batch.h"
#include "graph/text.h"
#include "graph/training.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::Graph;
using graph::HostTensor;
using graph::Role;
using graph::TensorMap;
using Doubles = std::vector<double>;

constexpr int kBatches = 3;
constexpr int64_t kRows = 4;  // of a batch

constexpr char kNormalised[] = R"(
  x = input f64[$N,6]; w1 = param f64[6,8]; w2 = param f64[8,5]
  s = param f64[8]; b = param f64[8]; m = buffer f64[8]; v = buffer f64[8]
  h = MatMul(x, w1); n, mean, var = BatchNorm(h, s, b, m, v); r = Tanh(n); y = MatMul(r, w2)
  output y
)";
constexpr char kPlain[] = R"(
  x = input f64[$N,6]; w1 = param f64[6,8]; w2 = param f64[8,5]
  h = MatMul(x, w1); r = Tanh(h); y = MatMul(r, w2)
  output y
)";

Graph Forward(absl::string_view text, int64_t rows) {
  auto graph = graph::ParseGraph(absl::StrReplaceAll(text, {{"$N", absl::StrCat(rows)}}));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

HostTensor Labels() {
  // Of the batches one, three and four labels count.
  return FromDoubles({graph::DType::kI64, {kBatches * kRows}},
                     {-100, -100, 2, -100, 0, 1, -100, 3, 4, 2, 2, 1});
}

TensorMap Feeds(const Graph& forward) {
  TensorMap feeds;
  uint64_t seed = 10;
  for (const graph::Value& value : forward.values) {
    if (value.role == Role::kParam) feeds[value.name] = RandomTensor(value.type, ++seed);
    if (value.role == Role::kBuffer) feeds[value.name] = RandomTensor(value.type, ++seed, 0.5, 1);
  }
  feeds["x"] = RandomTensor({graph::DType::kF64, {kBatches * kRows, 6}}, 3);
  feeds["label"] = Labels();
  feeds["ebb.hyper"] = FromDoubles({graph::DType::kF64, {4}}, {1, 1, 0, 0});
  return feeds;
}

// Rows of batch `b`.
HostTensor RowsOf(const HostTensor& all, int b) {
  const Doubles values = ToDoubles(all);
  const size_t each = values.size() / kBatches;
  const auto begin = values.begin() + static_cast<ptrdiff_t>(each * static_cast<size_t>(b));
  graph::TensorType type = all.type;
  type.shape[0] = kRows;
  return FromDoubles(type, Doubles(begin, begin + static_cast<ptrdiff_t>(each)));
}

graph::TrainingOptions Options() {
  graph::TrainingOptions options;
  options.metrics = {{graph::MetricKind::kAccuracy}};
  return options;
}

TensorMap RunOnce(const Graph& graph, const TensorMap& feeds, absl::string_view device = "ref") {
  const auto opened = *device::OpenDevice(std::string(device), {});
  TensorMap own;
  for (const auto& [name, tensor] : feeds) {
    if (graph.Find(name).valid()) own[name] = tensor;
  }
  auto values = RunGraph(*opened, graph, own, Placement::kShared);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *std::move(values) : TensorMap();
}

// What the step over all batches must leave, from the batches one by one: SGD with rate 1 leaves
// the parameter less its gradient.
TensorMap Expected(absl::string_view text, const TensorMap& feeds) {
  const auto graph = graph::BuildTrainingGraph(Forward(text, kRows), Options());
  EXPECT_TRUE(graph.ok()) << graph.status();
  TensorMap now = feeds;  // with the statistics so far
  std::map<std::string, Doubles> sums;
  for (int b = 0; b < kBatches; ++b) {
    now["x"] = RowsOf(feeds.at("x"), b);
    now["label"] = RowsOf(feeds.at("label"), b);
    const TensorMap after = RunOnce(*graph, now);
    for (const auto& [name, tensor] : after) {
      const Role role = graph->value(graph->Find(name)).role;
      if (role == Role::kBuffer) now[name] = tensor;
      if (role != Role::kParam && role != Role::kMetric) continue;
      const Doubles values = ToDoubles(tensor);
      Doubles& sum = sums[name];
      sum.resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) sum[i] += values[i];
    }
  }
  TensorMap expected;
  for (auto& [name, sum] : sums) {
    const graph::Value& value = graph->value(graph->Find(name));
    const bool counts = value.role == Role::kMetric && name != "metric/loss";
    for (double& s : sum) s /= counts ? 1 : kBatches;
    expected[name] = FromDoubles(value.type, sum);
  }
  for (const char* name : {"m", "v"}) {
    if (now.contains(name)) expected[name] = now.at(name);
  }
  return expected;
}

void ExpectNear(const TensorMap& got, const TensorMap& want, double tolerance) {
  for (const auto& [name, tensor] : want) {
    ASSERT_TRUE(got.contains(name)) << name;
    const Doubles a = ToDoubles(got.at(name)), b = ToDoubles(tensor);
    ASSERT_EQ(a.size(), b.size()) << name;
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << name << " " << i;
  }
}

Graph Accumulating(absl::string_view text, int parts) {
  auto graph = graph::BuildMicroBatchedGraph(
      Forward(text, kBatches * kRows / parts), Options(),
      {.batch = kBatches * kRows, .parts = parts, .accumulate = kBatches});
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return Graph();
  EXPECT_TRUE(graph::Verify(*graph).ok()) << graph::Verify(*graph);
  return *std::move(graph);
}

TEST(Accumulate, IsTheMeanOfTheGradientsOfItsBatches) {
  const TensorMap feeds = Feeds(Forward(kPlain, kRows));
  const TensorMap want = Expected(kPlain, feeds);
  EXPECT_EQ(ToDoubles(want.at("metric/accuracy.count")), Doubles{8});
  ExpectNear(RunOnce(Accumulating(kPlain, kBatches), feeds), want, 1e-12);
  // Each batch in two micro-batches: the labels that count are those of its own batch.
  ExpectNear(RunOnce(Accumulating(kPlain, 2 * kBatches), feeds), want, 1e-12);
}

TEST(Accumulate, NormalisesByEachBatchAndUpdatesStatisticsByOneAfterAnother) {
  const TensorMap feeds = Feeds(Forward(kNormalised, kRows));
  const TensorMap want = Expected(kNormalised, feeds);
  ASSERT_TRUE(want.contains("m") && want.contains("s"));
  ExpectNear(RunOnce(Accumulating(kNormalised, kBatches), feeds), want, 1e-12);
}

TEST(Accumulate, IsNotTheStepOverAllRowsAtOnce) {
  const TensorMap feeds = Feeds(Forward(kPlain, kRows));
  const auto whole = graph::BuildTrainingGraph(Forward(kPlain, kBatches * kRows), Options());
  ASSERT_TRUE(whole.ok()) << whole.status();
  const Doubles one = ToDoubles(RunOnce(*whole, feeds).at("metric/loss"));
  const Doubles mean = ToDoubles(Expected(kPlain, feeds).at("metric/loss"));
  EXPECT_GT(std::abs(one[0] - mean[0]), 1e-3) << "labels count by their batch";
}

TEST(Accumulate, BatchesThatAreCutAreRefusedWithTheNode) {
  const auto cut = graph::BuildMicroBatchedGraph(Forward(kNormalised, 2), Options(),
                                                 {.batch = 12, .parts = 6, .accumulate = 3});
  EXPECT_TRUE(absl::StrContains(cut.status().message(), "BatchNorm")) << cut.status();
  const auto odd = graph::BuildMicroBatchedGraph(Forward(kPlain, 3), Options(),
                                                 {.batch = 12, .parts = 4, .accumulate = 3});
  EXPECT_TRUE(absl::StrContains(odd.status().message(), "4 parts do not make 3 equal batches"))
      << odd.status();
}

}  // namespace
}  // namespace ebb::testing
