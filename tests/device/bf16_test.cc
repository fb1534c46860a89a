// bf16 values on devices that compute in f32: rounding, and every op of the case table whose
// operands may be rounded.
#include "device/common/bf16.h"

#include <cmath>
#include <limits>
#include <string>

#include "device/device.h"
#include "graph/op.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {
namespace {

using device::FromBf16;
using device::ToBf16;

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(FromBf16(ToBf16(1.0f)), 1.0f);
  EXPECT_EQ(FromBf16(ToBf16(-2.5f)), -2.5f);
  const float step = 1.0f / 128;                               // between neighbours of 1
  EXPECT_EQ(FromBf16(ToBf16(1 + 0.5f * step)), 1.0f);          // to even
  EXPECT_EQ(FromBf16(ToBf16(1 + 1.5f * step)), 1 + 2 * step);  // to even
  EXPECT_EQ(FromBf16(ToBf16(1 + 0.51f * step)), 1 + step);
  EXPECT_EQ(FromBf16(ToBf16(1 + 0.49f * step)), 1.0f);
  EXPECT_EQ(FromBf16(ToBf16(INFINITY)), INFINITY);
  EXPECT_EQ(FromBf16(ToBf16(std::numeric_limits<float>::max())), INFINITY);
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(NAN))));
  EXPECT_TRUE(std::signbit(FromBf16(ToBf16(-0.0f))));
}

TEST(Bf16, AnOpOfRoundedOperandsIsTheRoundedResultOfThem) {
  for (const std::string& name : TestDevices({"cpu", "ref"})) {
    SCOPED_TRACE(name);
    const auto device = device::OpenDevice(name, {});
    ASSERT_TRUE(device.ok()) << device.status();
    // What bf16 computes; and the same by f32 ops with roundings written out.
    const auto low = graph::ParseGraph(
        "a = input f32[8,16]; b = input f32[16,24]; p = Cast(a) {to=bf16}; q = Cast(b) {to=bf16}; "
        "m = MatMul(p, q); r = Relu(m); t = Transpose(r) {perm=[1,0]}; y = Cast(t) {to=f32}; "
        "output y");
    const auto high = graph::ParseGraph(
        "a = input f32[8,16]; b = input f32[16,24]; p = Cast(a) {to=bf16}; q = Cast(b) {to=bf16}; "
        "pf = Cast(p) {to=f32}; qf = Cast(q) {to=f32}; m = MatMul(pf, qf); ml = Cast(m) {to=bf16}; "
        "mf = Cast(ml) {to=f32}; r = Relu(mf); y = Transpose(r) {perm=[1,0]}; output y");
    ASSERT_TRUE(low.ok()) << low.status();
    ASSERT_TRUE(high.ok()) << high.status();
    const graph::TensorMap feeds = {{"a", RandomTensor({graph::DType::kF32, {8, 16}}, 1)},
                                    {"b", RandomTensor({graph::DType::kF32, {16, 24}}, 2)}};
    const auto got = RunGraph(**device, *low, feeds);
    const auto want = RunGraph(**device, *high, feeds);
    ASSERT_TRUE(got.ok()) << got.status();
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_EQ(got->at("y").data, want->at("y").data);
    // And that is near to no rounding, but not it.
    const auto full = graph::ParseGraph(
        "a = input f32[8,16]; b = input f32[16,24]; m = MatMul(a, b); r = Relu(m); "
        "y = Transpose(r) {perm=[1,0]}; output y");
    const auto exact = RunGraph(**device, *full, feeds);
    ASSERT_TRUE(exact.ok()) << exact.status();
    EXPECT_GT(RelativeL2(got->at("y"), exact->at("y")), 0);
    EXPECT_LE(RelativeL2(got->at("y"), exact->at("y")), 0.01);
  }
}

TEST(Bf16, IsNoTypeOfData) {
  EXPECT_EQ(graph::ParseDType("bf16"), std::nullopt);
  EXPECT_EQ(graph::ParseGraphDType("bf16"), graph::DType::kBF16);
  const auto constant = graph::ParseGraph("a = constant bf16[2] 1 2");
  EXPECT_FALSE(constant.ok());
}

}  // namespace
}  // namespace ebb::testing
