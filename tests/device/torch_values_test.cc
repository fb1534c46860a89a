// Losses, optimizers and metrics against what PyTorch and scikit-learn make of the same numbers
// (torch_values.py wrote them).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "device/device.h"
#include "graph/text.h"
#include "graph/training.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {
namespace {

using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::LossKind;
using graph::LossSpec;
using graph::TensorMap;
using Doubles = std::vector<double>;

const Doubles& Want(const std::string& name) {
  static const auto* const all = [] {
    auto* values = new std::map<std::string, Doubles>;
    std::ifstream file(SourcePath("tests/device/fixtures/torch_values.txt"));
    std::string line;
    while (std::getline(file, line)) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(line, absl::MaxSplits(": ", 1));
      for (absl::string_view word : absl::StrSplit(parts.second, ' ')) {
        EXPECT_TRUE(absl::SimpleAtod(word, &(*values)[parts.first].emplace_back())) << line;
      }
    }
    return values;
  }();
  const auto it = all->find(name);
  EXPECT_NE(it, all->end()) << name;
  static const auto* const none = new Doubles;
  return it == all->end() ? *none : it->second;
}

void ExpectNear(const HostTensor& got, const Doubles& want, double tolerance) {
  const Doubles values = ToDoubles(got);
  ASSERT_EQ(values.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(values[i], want[i], tolerance * (1 + std::abs(want[i]))) << i;
  }
}

TensorMap Values(const std::string& device, const absl::StatusOr<Graph>& graph,
                 const TensorMap& feeds) {
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  const auto opened = *device::OpenDevice(device, {});
  auto values = RunGraph(*opened, *graph, feeds);
  EXPECT_TRUE(values.ok()) << values.status();
  return values.ok() ? *std::move(values) : TensorMap();
}

struct LossCase {
  const char* name;
  LossSpec spec;
};
void PrintTo(const LossCase& test, std::ostream* out) { *out << test.name; }

std::vector<LossCase> LossCases() {
  const Doubles weights = {0.5, 2, 1, 0.25};
  return {
      {"weighted", {.class_weights = weights}},
      {"weighted_smooth", {.label_smoothing = 0.2, .class_weights = weights}},
      {"nll", {.kind = LossKind::kNll}},
      {"nll_weighted", {.kind = LossKind::kNll, .class_weights = weights}},
      {"l1", {.kind = LossKind::kL1}},
      {"smooth_l1", {.kind = LossKind::kSmoothL1}},
      {"smooth_l1_beta", {.kind = LossKind::kSmoothL1, .beta = 0.5}},
      {"huber", {.kind = LossKind::kHuber, .beta = 1.5}},
      {"pos_weight", {.kind = LossKind::kBceWithLogits, .pos_weight = {3, 0.5, 1, 2}}},
      {"pos_weight_one", {.kind = LossKind::kBceWithLogits, .pos_weight = {3}}},
  };
}

class TorchLosses : public ::testing::TestWithParam<LossCase> {
 protected:
  // A model that is its parameter: SGD of rate 1 leaves it less its gradient.
  void Compare(const std::string& device, DType dtype, double tolerance) {
    const std::string name = GetParam().name;
    const auto forward = graph::ParseGraph(
        absl::StrCat("x = param ", graph::Name(dtype), "[6,4]; y = Scale(x); output y"));
    ASSERT_TRUE(forward.ok()) << forward.status();
    graph::TrainingOptions options;
    options.loss = GetParam().spec;
    const bool by_class =
        options.loss.kind == LossKind::kNll || options.loss.kind == LossKind::kCrossEntropy;
    TensorMap feeds = {{"x", FromDoubles({dtype, {6, 4}}, Want(name + "/x"))},
                       {"label", by_class ? FromDoubles({DType::kI64, {6}}, Want(name + "/target"))
                                          : FromDoubles({dtype, {6, 4}}, Want(name + "/target"))},
                       {"ebb.hyper", FromDoubles({DType::kF64, {4}}, {1, 1, 0, 0})}};
    const TensorMap trained = Values(device, graph::BuildTrainingGraph(*forward, options), feeds);
    ASSERT_TRUE(trained.contains("metric/loss"));
    ExpectNear(trained.at("metric/loss"), Want(name + "/loss"), tolerance);
    Doubles after = Want(name + "/x");
    for (size_t i = 0; i < after.size(); ++i) after[i] -= Want(name + "/grad")[i];
    ExpectNear(trained.at("x"), after, tolerance);

    feeds.erase("ebb.hyper");
    feeds["ebb.valid"] = FromDoubles({DType::kI64, {1}}, {6});
    const TensorMap tested = Values(device, graph::BuildEvalGraph(*forward, options), feeds);
    ASSERT_TRUE(tested.contains("metric/loss.sum"));
    const double mean =
        ToDoubles(tested.at("metric/loss.sum"))[0] / ToDoubles(tested.at("metric/loss.count"))[0];
    EXPECT_NEAR(mean, Want(name + "/loss")[0], 1e-6 * (1 + mean));
  }
};

TEST_P(TorchLosses, AreTheSameInDouble) { Compare("ref", DType::kF64, 1e-12); }
TEST_P(TorchLosses, AreTheSameOnTheCpu) { Compare(TestDevice("cpu"), DType::kF32, 2e-6); }

INSTANTIATE_TEST_SUITE_P(All, TorchLosses, ::testing::ValuesIn(LossCases()),
                         [](const auto& info) { return std::string(info.param.name); });

struct Rule {
  const char* name;
  const char* slots;   // declared
  const char* update;  // op, slots and attributes
};

std::vector<Rule> Rules() {
  return {
      {"adagrad", "s = slot $[5] of p", "AdagradUpdate(p, g, hyper, s)"},
      {"adagrad_decay", "s = slot $[5] of p",
       "AdagradUpdate(p, g, hyper, s) {lr_decay=0.5, weight_decay=0.1}"},
      {"rmsprop", "s = slot $[5] of p", "RmsPropUpdate(p, g, hyper, s)"},
      {"rmsprop_all", "s = slot $[5] of p; v = slot $[5] of p; m = slot $[5] of p",
       "RmsPropUpdate(p, g, hyper, s, v, m) {alpha=0.9, epsilon=0.001, weight_decay=0.1, "
       "momentum=0.8, centered=1}"},
  };
}

void Train(const std::string& device_name, const std::string& type, const Rule& rule,
           double tolerance) {
  SCOPED_TRACE(absl::StrCat(rule.name, " on ", device_name));
  std::string text = absl::StrCat("p = param $[5]; g = input $[5]; hyper = scalar f64[4]; ",
                                  rule.slots, "; z = Scale(g); ", rule.update, " @update z");
  for (size_t at; (at = text.find('$')) != std::string::npos;) text.replace(at, 1, type);
  const auto graph = graph::ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const auto device = *device::OpenDevice(device_name, {});
  auto runner = GraphRunner::Make(*device, *graph);
  ASSERT_TRUE(runner.ok()) << runner.status();
  const graph::TensorType param{*graph::ParseDType(type), {5}};
  ASSERT_TRUE((*runner)->Set("p", FromDoubles(param, Want("optimizer/start"))).ok());
  const Doubles& gradients = Want("optimizer/gradients");
  for (int step = 0; step < 4; ++step) {
    const auto begin = gradients.begin() + step * 5;
    ASSERT_TRUE((*runner)->Set("g", FromDoubles(param, Doubles(begin, begin + 5))).ok());
    ASSERT_TRUE(
        (*runner)->Set("hyper", FromDoubles({DType::kF64, {4}}, {0.1, step + 1.0, 0, 0})).ok());
    ASSERT_TRUE((*runner)->Run().ok());
  }
  ExpectNear(*(*runner)->Get("p"), Want(absl::StrCat("optimizer/", rule.name)), tolerance);
}

TEST(TorchOptimizers, AreTheSameAfterFourSteps) {
  for (const Rule& rule : Rules()) {
    Train("ref", "f64", rule, 1e-12);
    Train(TestDevice("cpu"), "f32", rule, 2e-5);
  }
}

// FBGEMM's EXACT_ROWWISE_ADAGRAD by hand: a row's sum grows by the mean of its gradient's squares.
TEST(RowwiseAdagrad, StepsByOneSumARow) {
  for (const char* sparse : {"0", "1"}) {
    const TensorMap got =
        Values("ref",
               graph::ParseGraph(absl::StrCat(
                   "p = param f64[3,2]; s = slot f64[3] of p; hyper = scalar f64[4]; "
                   "g = constant f64[3,2] 3 4 0 0 0 1; z = Scale(g); "
                   "RowwiseAdagradUpdate(p, g, hyper, s) {weight_decay=0.5, epsilon=0.0, sparse=",
                   sparse, "} @update z")),
               {{"p", FromDoubles({DType::kF64, {3, 2}}, {2, 0, 2, 2, 0, 0})},
                {"hyper", FromDoubles({DType::kF64, {4}}, {0.1, 1, 0, 0})}});
    // Row 0: the gradient with its decay is (4, 4), the mean square 16, the step 0.1 / 4.
    const bool skips = *sparse == '1';
    const double decayed = skips ? 2 : 2 - 0.1;  // row 1: (1, 1), the mean square is 1
    const double last = 0.1 / std::sqrt(0.5);
    ExpectNear(got.at("p"), {1.9, -0.1, decayed, decayed, 0, -last}, 1e-12);
    ExpectNear(got.at("s"), {16, skips ? 0.0 : 1.0, 0.5}, 1e-12);
  }
}

}  // namespace
}  // namespace ebb::testing
