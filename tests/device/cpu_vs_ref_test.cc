// Every op that has a kernel on `cpu` (or on EBB_TEST_DEVICE) against the plain loops of `ref`, in
// both layouts.
#include <cmath>
#include <set>
#include <string>

#include "device/device.h"
#include "graph/op.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/device/compare_case.h"
#include "tests/device/cpu_cases.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {
namespace {

using graph::HostTensor;

class CpuVsRef : public ::testing::Test {
 protected:
  void SetUp() override {
    auto cpu = device::OpenDevice(TestDevice("cpu"), {});
    auto ref = device::OpenDevice("ref", {});
    ASSERT_TRUE(cpu.ok() && ref.ok());
    cpu_ = *std::move(cpu);
    ref_ = *std::move(ref);
  }

  void Compare(const OpCase& c, Order order) { CompareCase(*cpu_, *ref_, c, order); }

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
    if (HasOrder(c, Order::kPlain)) Compare(c, Order::kPlain);
  }
}

TEST_F(CpuVsRef, ChannelsLastValuesAgree) {
  for (const OpCase& c : CpuCases()) {
    if (HasOrder(c, Order::kChannelsLast)) Compare(c, Order::kChannelsLast);
  }
}

TEST_F(CpuVsRef, ScoresThatAreNoNumbersAreNeverCorrect) {
  const auto graph = graph::ParseGraph(
      "r = constant f32[2,2] -1 4 4 -1; n = Sqrt(r); l = constant i64[2] 0 0; "
      "t = constant f32[2,2] 0 0 0 0; a, b = TopKCorrect(n, l) {k=1}; c, d = BinaryCorrect(n, t)");
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (device::Device* device : {cpu_.get(), ref_.get()}) {
    const auto got = RunGraph(*device, *graph, {});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(ToDoubles(got->at("a"))[0], 1) << device->spec().kind;
    EXPECT_EQ(ToDoubles(got->at("c"))[0], 0) << device->spec().kind;
  }
}

TEST_F(CpuVsRef, ASoftmaxOfMaskedRowsGivesZerosWhereAsked) {
  const auto graph = graph::ParseGraph(
      "r = constant f32[2,3] 0 0 0 0 1 3; x = Log(r); t = Transpose(x) {perm=[1,0]}; "
      "a = Softmax(x) {axis=1, zero_masked=1}; b = Softmax(t) {axis=0, zero_masked=1}; "
      "c = Softmax(x) {axis=1}; d = Softmax(t) {axis=0}; g = SoftmaxGrad(r, a) {axis=1}");
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (device::Device* device : {cpu_.get(), ref_.get()}) {
    const auto got = RunGraph(*device, *graph, {});
    ASSERT_TRUE(got.ok()) << got.status();
    const auto expect = [&](const char* name, const std::vector<double>& want) {
      const std::vector<double> values = ToDoubles(got->at(name));
      for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 1e-6) << name << i;
    };
    expect("a", {0, 0, 0, 0, 0.25, 0.75});
    expect("b", {0, 0, 0, 0.25, 0, 0.75});
    expect("g", {0, 0, 0, 0, -0.375, 0.375});
    EXPECT_TRUE(std::isnan(ToDoubles(got->at("c"))[0]));
    EXPECT_TRUE(std::isnan(ToDoubles(got->at("d"))[0]));
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
