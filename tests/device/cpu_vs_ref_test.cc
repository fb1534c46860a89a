// Every op that has a kernel on `cpu` against the plain loops of `ref`, in both layouts.
#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "device/device.h"
#include "graph/op.h"
#include "gtest/gtest.h"
#include "tests/device/cpu_cases.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::Graph;
using graph::HostTensor;
using graph::Layout;
using graph::Role;

enum class Order { kPlain, kChannelsLast };

struct Built {
  Graph graph;
  std::vector<std::string> results;  // outputs, and inputs that the op writes
};

// The op alone over inputs named "in0", "in1", ...
absl::StatusOr<Built> Build(const OpCase& c, Order order) {
  const graph::OpDef* op = graph::FindOp(c.op);
  if (op == nullptr) return absl::NotFoundError(absl::StrCat("no op ", c.op));
  Built built;
  Graph& graph = built.graph;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].absent) {
      inputs.push_back(ValueId());
      continue;
    }
    const bool written =
        std::find(op->mutates.begin(), op->mutates.end(), static_cast<int>(i)) != op->mutates.end();
    ValueId id = graph.AddValue(absl::StrCat("in", i), c.inputs[i].type,
                                written ? Role::kParam : Role::kInput);
    if (written) built.results.push_back(absl::StrCat("in", i));
    if (order == Order::kChannelsLast &&
        std::find(c.last_in.begin(), c.last_in.end(), i) != c.last_in.end()) {
      EBB_ASSIGN_OR_RETURN(id, graph.Add("ToChannelsLast", absl::StrCat("last", i), {id}));
      graph.value(id).layout = Layout::kChannelsLast;
    }
    inputs.push_back(id);
  }
  while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
  EBB_ASSIGN_OR_RETURN(const NodeId node, graph.AddNode(c.op, "op", inputs, c.attrs));
  const std::vector<ValueId> outputs = graph.node(node).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    built.results.push_back(graph.value(outputs[i]).name);
    if (order == Order::kChannelsLast &&
        std::find(c.last_out.begin(), c.last_out.end(), i) != c.last_out.end()) {
      graph.value(outputs[i]).layout = Layout::kChannelsLast;
    }
  }
  return built;
}

double RelativeL2(const HostTensor& got, const HostTensor& want) {
  const std::vector<double> a = ToDoubles(got);
  const std::vector<double> b = ToDoubles(want);
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (difference == 0) return 0;
  return norm == 0 ? INFINITY : std::sqrt(difference / norm);
}

// Between orders: the op means nothing without marked values.
bool MovesOrder(const OpCase& c) { return c.op == "ToChannelsLast" || c.op == "ToPlain"; }

std::string Describe(const OpCase& c) {
  std::string text = c.op;
  for (const CaseInput& input : c.inputs) {
    absl::StrAppend(&text, " ", input.absent ? "-" : graph::ToString(input.type));
  }
  return absl::StrCat(text, " ", graph::ToString(c.attrs));
}

class CpuVsRef : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cpu = device::OpenDevice("cpu", {});
    auto ref = device::OpenDevice("ref", {});
    ASSERT_TRUE(cpu.ok() && ref.ok());
    cpu_ = *std::move(cpu);
    ref_ = *std::move(ref);
  }

  graph::TensorMap Feeds(const OpCase& c) {
    graph::TensorMap feeds;
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      const CaseInput& input = c.inputs[i];
      if (input.absent) continue;
      feeds[absl::StrCat("in", i)] = RandomTensor(input.type, 17 + i, input.min, input.max);
    }
    return feeds;
  }

  void Compare(const OpCase& c, Order order) {
    SCOPED_TRACE(absl::StrCat(Describe(c), order == Order::kPlain ? "" : " channels last"));
    const auto plain = Build(c, MovesOrder(c) ? order : Order::kPlain);
    const auto ordered = Build(c, order);
    ASSERT_TRUE(plain.ok()) << plain.status();
    ASSERT_TRUE(ordered.ok()) << ordered.status();
    const graph::TensorMap feeds = Feeds(c);
    const auto want = RunGraph(*ref_, plain->graph, feeds);
    const auto got = RunGraph(*cpu_, ordered->graph, feeds);
    ASSERT_TRUE(want.ok()) << want.status();
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < plain->results.size(); ++i) {
      const HostTensor& expected = want->at(plain->results[i]);
      const HostTensor& actual = got->at(ordered->results[i]);
      ASSERT_EQ(actual.type, expected.type);
      if (graph::IsFloat(expected.type.dtype)) {
        EXPECT_LE(RelativeL2(actual, expected), 1e-5) << plain->results[i];
      } else {
        EXPECT_EQ(actual.data, expected.data) << plain->results[i];
      }
    }
  }

  std::unique_ptr<device::Device> cpu_;
  std::unique_ptr<device::Device> ref_;
};

TEST_F(CpuVsRef, EveryOpOfTheTableHasACase) {
  std::set<std::string> covered;
  for (const OpCase& c : CpuCases()) covered.insert(c.op);
  for (const graph::OpDef* op : graph::AllOps()) {
    EXPECT_EQ(covered.count(std::string(op->name)), 1u) << op->name << " has no case";
  }
  EXPECT_GT(graph::AllOps().size(), 50u);
}

TEST_F(CpuVsRef, PlainValuesAgree) {
  for (const OpCase& c : CpuCases()) {
    if (!MovesOrder(c)) Compare(c, Order::kPlain);
  }
}

TEST_F(CpuVsRef, ChannelsLastValuesAgree) {
  for (const OpCase& c : CpuCases()) {
    if (!c.last_in.empty() || !c.last_out.empty()) Compare(c, Order::kChannelsLast);
  }
}

TEST_F(CpuVsRef, TheComparisonSeesASmallError) {
  const HostTensor a = RandomTensor({graph::DType::kF32, {100}}, 3);
  HostTensor b = a;
  b.as<float>()[5] += 1e-3f;
  EXPECT_GT(RelativeL2(b, a), 1e-5);
  EXPECT_EQ(RelativeL2(a, a), 0);
}

}  // namespace
}  // namespace ebb::testing
