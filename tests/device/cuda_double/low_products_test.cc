// Products and convolutions of bf16 and f16 on the CUDA device's double: asked of the libraries as
// they are stored, and rounded once, like the f32 results of `ref`. Operands are small integers, so
// that sums are exact in any order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "device/common/channels_last.h"
#include "graph/op.h"
#include "graph/text.h"
#include "tests/device/cuda_double/open_double.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using device::Precision;
using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::TensorMap;

HostTensor Integers(const graph::Shape& shape, uint32_t seed, int most) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<size_t>(graph::NumElements(shape)));
  for (float& value : values) {
    value =
        static_cast<float>(static_cast<int>(random() % static_cast<uint32_t>(2 * most + 1)) - most);
  }
  return HostTensor::Of<float>(DType::kF32, shape, values);
}

TensorMap FeedsOf(const Graph& graph, int most) {
  TensorMap feeds;
  uint32_t seed = 1;
  for (const graph::Value& value : graph.values) {
    if (value.role == graph::Role::kInput) {
      feeds[value.name] = Integers(value.type.shape, seed++, most);
    }
  }
  return feeds;
}

class LowProducts : public ::testing::TestWithParam<std::string> {
 protected:
  // `text` says what y, of type LOW, is made of a, b and c, which are LOW too.
  void ExpectRoundedOnce(const std::string& a, const std::string& b, const std::string& c,
                         const std::string& text, int most = 3) {
    std::string whole = absl::StrCat("ax = input f32", a, "; bx = input f32", b,
                                     "; a = Cast(ax) {to=LOW}; b = Cast(bx) {to=LOW}; ");
    if (!c.empty()) absl::StrAppend(&whole, "cx = input f32", c, "; c = Cast(cx) {to=LOW}; ");
    absl::StrAppend(&whole, text, "; z = Cast(y) {to=f32}; output z");
    SCOPED_TRACE(whole);
    const auto plain = graph::ParseGraph(absl::StrReplaceAll(whole, {{"LOW", GetParam()}}));
    ASSERT_TRUE(plain.ok()) << plain.status();
    const auto last = device::ToChannelsLast(*plain);
    ASSERT_TRUE(last.ok()) << last.status();
    const TensorMap feeds = FeedsOf(*plain, most);
    const auto want = RunGraph(**device::OpenDevice("ref", {}), *plain, feeds);
    ASSERT_TRUE(want.ok()) << want.status();
    for (const Graph* graph : {&*plain, &*last}) {
      std::atomic<int> native = 0, other = 0;
      const Precision precision = GetParam() == "bf16" ? Precision::kBf16 : Precision::kF16;
      const CudaDouble opened = OpenCudaDouble(
          {.asked = [&](Precision asked) { ++(asked == precision ? native : other); }});
      const auto got = RunGraph(*opened.device, *graph, feeds);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->at("z").data, want->at("z").data);
      EXPECT_EQ(native, graph::NumElements(want->at("z").type.shape) > 0 && !nothing_ ? 1 : 0);
      EXPECT_EQ(other, 0);
    }
  }

  bool nothing_ = false;  // is summed
};

INSTANTIATE_TEST_SUITE_P(Types, LowProducts, ::testing::Values("bf16", "f16"),
                         [](const auto& info) { return info.param; });

TEST_P(LowProducts, OfMatricesOfEveryForm) {
  ExpectRoundedOnce("[5,301]", "[301,7]", "", "y = MatMul(a, b)", 5);
  ExpectRoundedOnce("[301,5]", "[301,7]", "", "y = MatMul(a, b) {trans_a=1}", 5);
  ExpectRoundedOnce("[5,301]", "[7,301]", "", "y = MatMul(a, b) {trans_b=1}", 5);
  ExpectRoundedOnce("[4,3,5]", "[5,7]", "", "y = MatMul(a, b)");
  ExpectRoundedOnce("[3,2,3,5]", "[3,1,5,7]", "", "y = MatMul(a, b)");  // at odd addresses
  ExpectRoundedOnce("[2,1,5,3]", "[4,7,5]", "", "y = MatMul(a, b) {trans_a=1, trans_b=1}");
}

TEST_P(LowProducts, OfMatricesAndSummands) {
  ExpectRoundedOnce("[6,20]", "[20,9]", "[9]", "y = Gemm(a, b, c)");
  ExpectRoundedOnce("[6,20]", "[20,9]", "[6,1]", "y = Gemm(a, b, c) {alpha=2, beta=0.5}");
  ExpectRoundedOnce("[6,20]", "[9,20]", "[6,9]", "y = Gemm(a, b, c) {trans_b=1, beta=-3}");
  ExpectRoundedOnce("[6,20]", "[20,9]", "", "y = Gemm(a, b)");
  ExpectRoundedOnce("[0,20]", "[20,9]", "[9]", "y = Gemm(a, b, c)");
  nothing_ = true;
  ExpectRoundedOnce("[6,0]", "[0,9]", "[6,1]", "y = Gemm(a, b, c) {beta=2}");
  ExpectRoundedOnce("[6,0]", "[0,9]", "", "y = MatMul(a, b)");
}

TEST_P(LowProducts, OfConvolutions) {
  const std::string same = "{strides=[1,1], pads=[1,1,1,1], dilations=[1,1]";
  const std::string uneven = "{strides=[2,1], pads=[0,1,1,2], dilations=[1,1]";
  const std::string one = "{strides=[1,1], pads=[0,0,0,0], dilations=[1,1]";
  // A bias is added to what has been rounded; these sums are exact before and after.
  ExpectRoundedOnce("[2,2,6,5]", "[3,2,3,3]", "[3]", "y = Conv(a, b, c) " + same + "}", 2);
  ExpectRoundedOnce("[2,40,6,5]", "[3,40,3,3]", "", "y = Conv(a, b) " + same + "}");
  ExpectRoundedOnce("[2,6,6,5]", "[4,3,3,3]", "", "y = Conv(a, b) " + same + ", groups=2}");
  ExpectRoundedOnce("[2,6,7,5]", "[4,6,2,3]", "", "y = Conv(a, b) " + uneven + "}");
  ExpectRoundedOnce("[2,6,7,5]", "[4,6,1,1]", "", "y = Conv(a, b) " + one + "}");
  ExpectRoundedOnce("[2,6,9]", "[4,6,3]", "[4]",
                    "y = Conv(a, b, c) {strides=[1], pads=[1,1], dilations=[1]}", 2);
}

TEST_P(LowProducts, OfGradientsOfConvolutions) {
  const std::string same = "{strides=[1,1], pads=[1,1,1,1], dilations=[1,1]";
  const std::string uneven = "{strides=[2,1], pads=[0,1,1,2], dilations=[1,1]";
  const std::string one = "{strides=[1,1], pads=[0,0,0,0], dilations=[1,1]";
  ExpectRoundedOnce("[2,4,6,5]", "[4,6,3,3]", "",
                    "y = ConvGradInput(a, b) " + same + ", input_shape=[2,6,6,5]}");
  ExpectRoundedOnce("[2,4,4,6]", "[4,6,2,3]", "",
                    "y = ConvGradInput(a, b) " + uneven + ", input_shape=[2,6,7,5]}");
  ExpectRoundedOnce("[2,4,7,5]", "[4,6,1,1]", "",
                    "y = ConvGradInput(a, b) " + one + ", input_shape=[2,6,7,5]}");
  ExpectRoundedOnce("[2,4,6,5]", "[2,6,6,5]", "",
                    "y = ConvGradWeight(a, b) " + same + ", weight_shape=[4,6,3,3]}");
  ExpectRoundedOnce("[2,4,4,6]", "[2,6,7,5]", "",
                    "y = ConvGradWeight(a, b) " + uneven + ", weight_shape=[4,6,2,3]}");
  ExpectRoundedOnce("[2,4,7,5]", "[2,6,7,5]", "",
                    "y = ConvGradWeight(a, b) " + one + ", weight_shape=[4,6,1,1]}");
}

}  // namespace
}  // namespace ebb::testing
