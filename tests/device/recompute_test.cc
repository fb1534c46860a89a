// Recompute changes no bit: parameters, slots, running statistics and losses of several steps are
// the same with and without it, in memory that is joined as liveness says.
#include "graph/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "device/device.h"
#include "graph/clones.h"
#include "graph/op.h"
#include "graph/text.h"
#include "graph/training.h"
#include "tests/device/small_cnn.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::Graph;
using graph::Role;

constexpr int kSteps = 5;

// A block of a transformer: layer norm, attention with dropout, GELU, dropout on the residual.
constexpr absl::string_view kTransformer = R"(
  x = input f32[4,16,32]; ebb.rng = scalar i64[2]
  scale1 = param f32[32]; bias1 = param f32[32]; scale2 = param f32[32]; bias2 = param f32[32]
  wq = param f32[32,32]; wk = param f32[32,32]; wv = param f32[32,32]; wo = param f32[32,32]
  w1 = param f32[32,128]; w2 = param f32[128,32]; head = param f32[32,5]
  n1, mean1, inv1 = LayerNorm(x, scale1, bias1) {axis=2}
  q = MatMul(n1, wq); k = MatMul(n1, wk); v = MatMul(n1, wv)
  scores = MatMul(q, k) {trans_b=1}
  scaled = Scale(scores) {scale=0.2}
  weights = Softmax(scaled) {axis=2}
  dropped, mask = Dropout(weights, ebb.rng) {ratio=0.25, stream=3}
  context = MatMul(dropped, v)
  o = MatMul(context, wo)
  od, omask = Dropout(o, ebb.rng) {ratio=0.25, stream=4}
  r = Add(od, x)
  n2, mean2, inv2 = LayerNorm(r, scale2, bias2) {axis=2}
  h = MatMul(n2, w1)
  g = Gelu(h)
  m = MatMul(g, w2)
  y = Add(m, r)
  pooled = ReduceMean(y) {axes=[1], keepdims=0}
  logits = MatMul(pooled, head)
  output logits
)";

absl::StatusOr<Graph> Transformer() {
  absl::StatusOr<Graph> forward = graph::ParseGraph(kTransformer);
  if (!forward.ok()) return forward;
  graph::TrainingOptions options;
  options.metrics = {{graph::MetricKind::kAccuracy}};
  options.optimizer.kind = graph::OptimizerKind::kAdam;
  return BuildTrainingGraph(*forward, options);
}

absl::StatusOr<Graph> Network(const std::string& name) {
  return name == "cnn" ? SmallCnn(6, 16, GraphUse::kTraining) : Transformer();
}

// All residents, metrics among them, after every step.
std::vector<graph::HostTensor> Train(device::Device& device, const Graph& graph) {
  std::vector<graph::HostTensor> state;
  auto runner = GraphRunner::Make(device, graph, Placement::kShared);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return state;
  const graph::TensorMap feeds = SmallCnnFeeds(graph, 1);
  for (const auto& [name, tensor] : feeds) EXPECT_TRUE((*runner)->Set(name, tensor).ok());
  for (int step = 1; step <= kSteps; ++step) {
    for (const graph::Value& value : graph.values) {
      graph::HostTensor now;
      if (value.role == Role::kInput) {
        now = feeds.at(value.name);
      } else if (value.name == "ebb.hyper") {
        now = FromDoubles(value.type, {0.05, double(step), 0, 0});
      } else if (value.name == "ebb.rng") {
        now = FromDoubles(value.type, {17, double(step)});
      } else {
        continue;
      }
      EXPECT_TRUE((*runner)->Set(value.name, now).ok());
    }
    const absl::Status ran = (*runner)->Run();
    EXPECT_TRUE(ran.ok()) << ran;
    for (const graph::Value& value : graph.values) {
      if (graph::IsResident(value.role)) state.push_back((*runner)->Get(value.id));
    }
  }
  return state;
}

struct Setting {
  std::string device, network;
  bool lower_first = true;
};
void PrintTo(const Setting& setting, std::ostream* out) {
  *out << setting.network << " on " << setting.device << (setting.lower_first ? "" : ", raw");
}

double Cost(const Graph& graph, const graph::Node& node) {
  const graph::OpCost cost = graph::CostOf(graph, node);
  return static_cast<double>(cost.bytes.count()) + static_cast<double>(cost.flops.count());
}

// Everything that can be made again is, whether that frees memory or not.
Graph WithAllClones(const Graph& graph) {
  const graph::CloneRules rules(graph);
  graph::Clones clones(graph);
  for (const graph::Value& value : graph.values) {
    graph::Clones more = clones;
    if (rules.IsWanted(value.id, clones) && rules.Add(value.id, &more)) clones = more;
  }
  Graph base = graph;
  base.nodes.clear();
  return graph::WithClones(std::move(base), graph.nodes, clones);
}

bool HasInBackward(const Graph& graph, absl::string_view op) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) {
    return node.op->name == op && node.phase == graph::Phase::kBackward;
  });
}

class RecomputeOnDevice : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    device_ = *device::OpenDevice(GetParam().device, {});
    auto graph = Network(GetParam().network);
    ASSERT_TRUE(graph.ok()) << graph.status();
    if (GetParam().lower_first) graph = device_->Lower(*std::move(graph));
    ASSERT_TRUE(graph.ok()) << graph.status();
    graph_ = *std::move(graph);
  }

  void ExpectTheSameBits(Graph rewritten) {
    ASSERT_TRUE(graph::Verify(rewritten).ok()) << graph::Verify(rewritten);
    Graph original = graph_;
    if (!GetParam().lower_first) {
      auto a = device_->Lower(std::move(original)), b = device_->Lower(std::move(rewritten));
      ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
      original = *std::move(a), rewritten = *std::move(b);
    }
    const auto before = Train(*device_, original), after = Train(*device_, rewritten);
    ASSERT_EQ(before.size(), after.size());
    ASSERT_FALSE(before.empty());
    std::vector<std::string> names;
    for (const graph::Value& value : original.values) {
      if (graph::IsResident(value.role)) names.push_back(value.name);
    }
    for (size_t i = 0; i < before.size(); ++i) {
      EXPECT_EQ(before[i].data, after[i].data)
          << names[i % names.size()] << " after step " << i / names.size() + 1;
    }
  }

  std::unique_ptr<device::Device> device_;
  Graph graph_;
};

TEST_P(RecomputeOnDevice, ChangesNoBit) {
  const auto recomputed = graph::Recompute(graph_, {.most_cost = 1, .cost = Cost});
  ASSERT_TRUE(recomputed.ok()) << recomputed.status();
  EXPECT_LT(recomputed->live_peak_after, recomputed->live_peak_before);
  EXPECT_GE(recomputed->values.size(), 4u);
  ExpectTheSameBits(recomputed->graph);
}

TEST_P(RecomputeOnDevice, ChangesNoBitWhateverIsMadeAgain) {
  const Graph all = WithAllClones(graph_);
  const auto ops = GetParam().network == "cnn"
                       ? std::vector<std::string>{"BatchNormInference",
                                                  "Relu",
                                                  "Conv",
                                                  "MaxPool",
                                                  "Concat",
                                                  "Sigmoid"}
                       : std::vector<std::string>{"LayerNorm", "Softmax", "Dropout", "Gelu"};
  for (const std::string& op : ops) EXPECT_TRUE(HasInBackward(all, op)) << op;
  EXPECT_FALSE(HasInBackward(all, "BatchNorm"));
  ExpectTheSameBits(all);
}

INSTANTIATE_TEST_SUITE_P(Devices, RecomputeOnDevice,
                         ::testing::Values(Setting{"ref", "cnn"}, Setting{"ref", "transformer"},
                                           Setting{"cpu", "cnn"}, Setting{"cpu", "cnn", false},
                                           Setting{"cpu", "transformer"}));

}  // namespace
}  // namespace ebb::testing
