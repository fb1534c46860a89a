// Every gradient rule and its kernels against central differences, in double on the reference
// device.
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/device.h"
#include "gmock/gmock.h"
#include "graph/op.h"
#include "graph/text.h"
#include "graph/training.h"
#include "gtest/gtest.h"
#include "tests/device/grad_cases.h"
#include "tests/testing/run_graph.h"

namespace ebb::device {
namespace {

using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::Role;
using graph::Value;
using testing::GraphRunner;
using testing::Placement;

constexpr double kStep = 1e-6;
constexpr double kRelative = 1e-6;
constexpr double kAbsolute = 1e-8;

// Random numbers at least 100 steps away from the kinks.
HostTensor Numbers(const GradCase& test, const graph::TensorType& type, uint64_t seed) {
  HostTensor tensor = testing::RandomTensor(type, seed, test.min, test.max);
  for (double& x : tensor.as<double>()) {
    for (double kink : test.kinks) {
      if (std::abs(x - kink) < 100 * kStep) x = kink + 200 * kStep;
    }
  }
  return tensor;
}

// The graph of a case with loss = sum(weights * y) and the loss's gradients by its inputs.
struct Checked {
  Graph graph;
  std::vector<ValueId> inputs;
  std::vector<ValueId> gradients;
  ValueId loss;
};

absl::StatusOr<Checked> Build(const GradCase& test) {
  Checked checked;
  EBB_ASSIGN_OR_RETURN(Graph graph, graph::ParseGraph(test.text));
  const ValueId y = graph.Find("y");
  const graph::TensorType type = graph.value(y).type;
  const ValueId weights = graph.AddConstant("weights", testing::RandomTensor(type, 1000, 0.5, 1.5));
  EBB_ASSIGN_OR_RETURN(checked.loss, graph.Add("Mul", "loss", {y, weights}));
  if (!type.shape.empty()) {
    std::vector<int64_t> axes;
    for (size_t i = 0; i < type.shape.size(); ++i) axes.push_back(static_cast<int64_t>(i));
    EBB_ASSIGN_OR_RETURN(checked.loss, graph.Add("ReduceSum", "sum", {checked.loss},
                                                 {{"axes", axes}, {"keepdims", int64_t{0}}}));
  }
  for (const Value& value : graph.values) {
    if (value.role == Role::kInput) checked.inputs.push_back(value.id);
  }
  EBB_ASSIGN_OR_RETURN(graph::Gradients made,
                       graph::Differentiate(std::move(graph), checked.loss, checked.inputs));
  // The loss stays readable in shared memory too.
  made.graph.outputs.push_back(checked.loss);
  EBB_RETURN_IF_ERROR(Verify(made.graph));
  checked.graph = std::move(made.graph);
  checked.gradients = std::move(made.grads);
  return checked;
}

absl::Status Fill(const GradCase& test, const Graph& graph, GraphRunner& runner) {
  for (const Value& value : graph.values) {
    if (value.role != Role::kInput && value.role != Role::kBuffer) continue;
    EBB_RETURN_IF_ERROR(
        runner.Set(value.name, Numbers(test, value.type, static_cast<uint64_t>(value.id.value()))));
  }
  return absl::OkStatus();
}

class Gradcheck : public ::testing::TestWithParam<GradCase> {
 protected:
  std::unique_ptr<Device> device_ = *OpenDevice("ref", {});
};

TEST_P(Gradcheck, AgreesWithCentralDifferences) {
  auto checked = Build(GetParam());
  ASSERT_TRUE(checked.ok()) << checked.status();
  auto runner = GraphRunner::Make(*device_, checked->graph);
  ASSERT_TRUE(runner.ok()) << runner.status();
  ASSERT_TRUE(Fill(GetParam(), checked->graph, **runner).ok());
  const absl::Status status = (*runner)->Run();
  ASSERT_TRUE(status.ok()) << status;
  std::vector<HostTensor> gradients;
  for (ValueId gradient : checked->gradients) {
    ASSERT_TRUE(gradient.valid());
    gradients.push_back((*runner)->Get(gradient));
  }
  for (size_t k = 0; k < checked->inputs.size(); ++k) {
    const Value& input = checked->graph.value(checked->inputs[k]);
    HostTensor x = (*runner)->Get(input.id);
    ASSERT_EQ(gradients[k].type, input.type);
    for (size_t i = 0; i < x.as<double>().size(); ++i) {
      const double middle = x.as<double>()[i];
      double loss[2];
      for (int side : {0, 1}) {
        x.as<double>()[i] = middle + (side == 0 ? -kStep : kStep);
        ASSERT_TRUE((*runner)->Set(input.name, x).ok());
        ASSERT_TRUE((*runner)->Run().ok());
        loss[side] = (*runner)->Get(checked->loss).as<double>()[0];
      }
      x.as<double>()[i] = middle;
      ASSERT_TRUE((*runner)->Set(input.name, x).ok());
      const double expected = (loss[1] - loss[0]) / (2 * kStep);
      const double actual = gradients[k].as<double>()[i];
      ASSERT_NEAR(actual, expected, kAbsolute + kRelative * std::abs(expected))
          << "d loss / d " << input.name << "[" << i << "]";
    }
  }
}

TEST_P(Gradcheck, SharingMemoryChangesNoBit) {
  auto checked = Build(GetParam());
  ASSERT_TRUE(checked.ok()) << checked.status();
  std::vector<HostTensor> results[2];
  for (Placement placement : {Placement::kSeparate, Placement::kShared}) {
    auto runner = GraphRunner::Make(*device_, checked->graph, placement);
    ASSERT_TRUE(runner.ok()) << runner.status();
    ASSERT_TRUE(Fill(GetParam(), checked->graph, **runner).ok());
    const absl::Status status = (*runner)->Run();
    ASSERT_TRUE(status.ok()) << status;
    auto& into = results[placement == Placement::kShared];
    for (ValueId gradient : checked->gradients) into.push_back((*runner)->Get(gradient));
    into.push_back((*runner)->Get(checked->loss));
  }
  for (size_t i = 0; i < results[0].size(); ++i) EXPECT_EQ(results[0][i].data, results[1][i].data);
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradcheck, ::testing::ValuesIn(GradCases()),
                         [](const auto& info) { return absl::StrCat("case", info.index); });

TEST(GradcheckTable, HasEveryDifferentiableOp) {
  std::set<std::string> checked;
  for (const GradCase& test : GradCases()) {
    auto graph = graph::ParseGraph(test.text);
    ASSERT_TRUE(graph.ok()) << test.text << ": " << graph.status();
    const Value& y = graph->value(graph->Find("y"));
    checked.emplace(graph->node(y.producer).op->name);
  }
  for (const graph::OpDef* op : graph::AllOps()) {
    if (op->gradient != nullptr && op->gradient != graph::ops::ZeroGradient) {
      EXPECT_TRUE(checked.count(std::string(op->name)) > 0)
          << op->name << " has a gradient, but no row in grad_cases.cc";
    }
  }
}

}  // namespace
}  // namespace ebb::device
