// Values of 16 bits on devices that compute in f32: rounding, and ops that read and make them.
#include "device/common/half.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "device/device.h"
#include "graph/op.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/testing/run_graph.h"
#include "tests/testing/test_device.h"

namespace ebb::testing {
namespace {

using device::FromBf16;
using device::FromF16;
using device::ToBf16;
using device::ToF16;

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

// The value of a half by the standard's definition, in double.
double ValueOfF16(int bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double magnitude = exponent == 31  ? (fraction == 0 ? INFINITY : NAN)
                           : exponent == 0 ? std::ldexp(fraction, -24)
                                           : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(F16, HasTheValueOfEachOfItsBitPatterns) {
  for (int bits = 0; bits < 65536; ++bits) {
    SCOPED_TRACE(bits);
    const float got = FromF16(static_cast<uint16_t>(bits));
    const double want = ValueOfF16(bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got));
      ASSERT_TRUE(std::isnan(FromF16(ToF16(got))));
      continue;
    }
    ASSERT_EQ(static_cast<double>(got), want);
    ASSERT_EQ(std::signbit(got), std::signbit(want));
    ASSERT_EQ(ToF16(got), bits);
  }
}

TEST(F16, RoundsToNearestAndTiesToEven) {
  for (int bits = 0; bits < 0x7c00; ++bits) {  // and its upper neighbour; after the last, infinity
    SCOPED_TRACE(bits);
    const double low = ValueOfF16(bits);
    const double high = bits == 0x7bff ? 65536 : ValueOfF16(bits + 1);
    const auto tie = static_cast<float>((low + high) / 2);  // exact
    const int even = bits % 2 == 0 ? bits : bits + 1;
    for (const int sign : {0, 0x8000}) {
      const float by = sign == 0 ? 1.0f : -1.0f;
      ASSERT_EQ(ToF16(by * tie), even | sign);
      ASSERT_EQ(ToF16(by * std::nextafter(tie, 0.0f)), bits | sign);
      ASSERT_EQ(ToF16(by * std::nextafter(tie, INFINITY)), (bits + 1) | sign);
    }
  }
  EXPECT_EQ(ToF16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(ToF16(-INFINITY), 0xfc00);
  EXPECT_EQ(ToF16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(ToF16(-std::numeric_limits<float>::denorm_min()), 0x8000);
}

class Half : public ::testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Types, Half, ::testing::Values("bf16", "f16"),
                         [](const auto& info) { return info.param; });

// In texts of graphs LOW stands for the type.
absl::StatusOr<graph::Graph> Parsed(absl::string_view text, absl::string_view low) {
  return graph::ParseGraph(absl::StrReplaceAll(text, {{"LOW", low}}));
}

TEST_P(Half, AnOpOfRoundedOperandsIsTheRoundedResultOfThem) {
  for (const std::string& name : TestDevices({"cpu", "ref"})) {
    SCOPED_TRACE(name);
    const auto device = device::OpenDevice(name, {});
    ASSERT_TRUE(device.ok()) << device.status();
    // What 16 bits compute; and the same by f32 ops with roundings written out.
    const auto low = Parsed(
        "a = input f32[8,16]; b = input f32[16,24]; p = Cast(a) {to=LOW}; q = Cast(b) {to=LOW}; "
        "m = MatMul(p, q); r = Relu(m); t = Transpose(r) {perm=[1,0]}; y = Cast(t) {to=f32}; "
        "output y",
        GetParam());
    const auto high = Parsed(
        "a = input f32[8,16]; b = input f32[16,24]; p = Cast(a) {to=LOW}; q = Cast(b) {to=LOW}; "
        "pf = Cast(p) {to=f32}; qf = Cast(q) {to=f32}; m = MatMul(pf, qf); ml = Cast(m) {to=LOW}; "
        "mf = Cast(ml) {to=f32}; r = Relu(mf); y = Transpose(r) {perm=[1,0]}; output y",
        GetParam());
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

TEST_P(Half, IsCastToAndFromEveryType) {
  for (const std::string& name : TestDevices({"cpu", "ref"})) {
    SCOPED_TRACE(name);
    const auto device = device::OpenDevice(name, {});
    ASSERT_TRUE(device.ok()) << device.status();
    const auto casts = Parsed(
        "a = input f32[4]; l = Cast(a) {to=LOW}; i = Cast(l) {to=i64}; m = Cast(i) {to=LOW}; "
        "y = Cast(m) {to=f32}; b = Cast(l) {to=bool}; c = Cast(b) {to=LOW}; z = Cast(c) {to=f32}; "
        "output y; output z",
        GetParam());
    ASSERT_TRUE(casts.ok()) << casts.status();
    const auto feed = graph::HostTensor::Of<float>(graph::DType::kF32, {4}, {0, 2.5f, -3.75f, 96});
    const auto got = RunGraph(**device, *casts, {{"a", feed}});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(ToDoubles(got->at("y")), (std::vector<double>{0, 2, -3, 96}));
    EXPECT_EQ(ToDoubles(got->at("z")), (std::vector<double>{0, 1, 1, 1}));
  }
}

TEST_P(Half, IsNoTypeOfData) {
  EXPECT_EQ(graph::ParseDType(GetParam()), std::nullopt);
  const auto dtype = graph::ParseGraphDType(GetParam());
  ASSERT_TRUE(dtype.has_value());
  EXPECT_TRUE(graph::IsLow(*dtype));
  EXPECT_EQ(graph::SizeOf(*dtype), Bytes(2));
  EXPECT_FALSE(Parsed("a = constant LOW[2] 1 2", GetParam()).ok());
}

}  // namespace
}  // namespace ebb::testing
