// Values of the reference kernels, worked out by hand or from their formulas: the gradient check
// proves that a gradient fits its op, these prove that the op is the right one.
#include <cmath>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/philox.h"
#include "device/device.h"
#include "gmock/gmock.h"
#include "graph/op.h"
#include "graph/text.h"
#include "gtest/gtest.h"
#include "tests/device/grad_cases.h"
#include "tests/graph/op_cases.h"
#include "tests/testing/run_graph.h"

namespace ebb::device {
namespace {

using graph::DType;
using graph::Graph;
using graph::HostTensor;
using graph::Role;
using graph::TensorMap;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using testing::FromDoubles;
using ::testing::Pointwise;
using testing::ToDoubles;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

std::unique_ptr<Device> Ref() { return *OpenDevice("ref", {}); }

// Runs graph text with `feeds` for its params, buffers and inputs; all values by name.
TensorMap Values(const std::string& text, const TensorMap& feeds = {}) {
  auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << text << ": " << graph.status();
  if (!graph.ok()) return {};
  auto results = testing::RunGraph(*Ref(), *graph, feeds);
  EXPECT_TRUE(results.ok()) << text << ": " << results.status();
  return results.ok() ? *results : TensorMap();
}

HostTensor Doubles(graph::Shape shape, const std::vector<double>& values) {
  return FromDoubles({DType::kF64, std::move(shape)}, values);
}

struct Known {
  std::string text;  // makes "y"
  std::vector<double> y;
};
void PrintTo(const Known& known, std::ostream* out) { *out << known.text; }

class RefOps : public ::testing::TestWithParam<Known> {};

TEST_P(RefOps, GiveTheKnownValues) {
  const TensorMap results = Values(GetParam().text);
  ASSERT_TRUE(results.contains("y"));
  EXPECT_THAT(ToDoubles(results.at("y")),
              Pointwise(::testing::NanSensitiveDoubleNear(1e-12), GetParam().y));
}

const std::string kX = "x = constant f64[5] -4 -0.5 0 0.5 4; ";
const std::string kAb = "a = constant f64[2,2] 1 2 3 4; b = constant f64[2] 2 4; ";
const std::string kI = "a = constant i64[3] 7 -7 5; b = constant i64[3] 2 2 0; ";
const std::string kM = "a = constant f64[2,3] 1 2 3 4 5 6; b = constant f64[3,2] 1 0 2 1 0 3; ";
const std::string kPlane = "x = constant f64[1,1,3,3] 1 2 3 4 5 6 7 8 9; ";
// Rows of mean 2 and 30, of deviation 1 and 20.
const std::string kRows =
    "x = constant f64[2,2] 1 3 10 50; s = constant f64[2] 2 3; b = constant f64[2] 0 1; ";
const std::string kCube = "x = constant f64[2,2,3] 0 1 2 3 4 5 6 7 8 9 10 11; ";

double Logistic(double x) { return 1 / (1 + std::exp(-x)); }
double Phi(double x) { return 0.5 * (1 + std::erf(x / std::sqrt(2))); }

std::vector<Known> ElementwiseValues() {
  const double e = std::exp(-0.5), e4 = std::exp(-4.0);
  return {
      {kX + "y = Relu(x)", {0, 0, 0, 0.5, 4}},
      {kX + "y = LeakyRelu(x) {alpha=0.5}", {-2, -0.25, 0, 0.5, 4}},
      {kX + "y = Elu(x) {alpha=2}", {2 * (e4 - 1), 2 * (e - 1), 0, 0.5, 4}},
      {kX + "y = Sigmoid(x)", {Logistic(-4), Logistic(-0.5), 0.5, Logistic(0.5), Logistic(4)}},
      {kX + "y = Tanh(x)", {std::tanh(-4), std::tanh(-0.5), 0, std::tanh(0.5), std::tanh(4)}},
      {kX + "y = Clip(x) {min=-1, max=0.25}", {-1, -0.5, 0, 0.25, 0.25}},
      {kX + "y = HardTanh(x)", {-1, -0.5, 0, 0.5, 1}},
      {kX + "y = HardTanh(x) {min=0, max=0.25}", {0, 0, 0, 0.25, 0.25}},
      {kX + "y = HardSigmoid(x)", {0, 0.4, 0.5, 0.6, 1}},
      {kX + "y = HardSwish(x)", {0, -0.5 * 2.5 / 6, 0, 0.5 * 3.5 / 6, 4}},
      {kX + "y = Silu(x)",
       {-4 * Logistic(-4), -0.5 * Logistic(-0.5), 0, 0.5 * Logistic(0.5), 4 * Logistic(4)}},
      {kX + "y = Softplus(x)",
       {std::log1p(e4), std::log1p(e), std::log(2), 0.5 + std::log1p(e), 4 + std::log1p(e4)}},
      {kX + "y = Gelu(x)", {-4 * Phi(-4), -0.5 * Phi(-0.5), 0, 0.5 * Phi(0.5), 4 * Phi(4)}},
      {"x = constant f64[1] 1; y = Gelu(x) {approximate=\"tanh\"}",
       {0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * 1.044715))}},
      {kX + "y = Erf(x)", {std::erf(-4), std::erf(-0.5), 0, std::erf(0.5), std::erf(4)}},
      {kX + "y = Neg(x)", {4, 0.5, 0, -0.5, -4}},
      {kX + "y = Abs(x)", {4, 0.5, 0, 0.5, 4}},
      {kX + "y = Sign(x)", {-1, -1, 0, 1, 1}},
      {kX + "y = Scale(x) {scale=2, shift=1}", {-7, 0, 1, 2, 9}},
      {kX + "y = Identity(x)", {-4, -0.5, 0, 0.5, 4}},
      {"x = constant f64[3] 4 0.25 1; y = Sqrt(x)", {2, 0.5, 1}},
      {"x = constant f64[3] 4 0.25 1; y = Reciprocal(x)", {0.25, 4, 1}},
      {"x = constant f64[3] 4 0.25 1; y = Log(x)", {std::log(4), -std::log(4), 0}},
      {"x = constant f64[2] 1 -2; y = Exp(x)", {std::exp(1), std::exp(-2)}},
      {"x = constant f64[4] -1.5 2.7 300 -9e99; y = Cast(x) {to=\"u8\"}", {0, 2, 255, 0}},
      {"x = constant f64[4] -1.5 2.7 9e99 -9e99; y = Cast(x) {to=\"i32\"}",
       {-1, 2, 2147483647, -2147483648.0}},
      {"x = constant f64[3] -1.5 0 0.1; y = Cast(x) {to=\"bool\"}", {1, 0, 1}},
      {"x = constant i64[2] -3 5; y = Cast(x) {to=\"f32\"}", {-3, 5}},
  };
}

std::vector<Known> BinaryValues() {
  return {
      {kAb + "y = Add(a, b)", {3, 6, 5, 8}},
      {kAb + "y = Sub(a, b)", {-1, -2, 1, 0}},
      {kAb + "y = Mul(a, b)", {2, 8, 6, 16}},
      {kAb + "y = Div(a, b)", {0.5, 0.5, 1.5, 1}},
      {kAb + "y = Pow(a, b)", {1, 16, 9, 256}},
      {kAb + "y = Max(a, b)", {2, 4, 3, 4}},
      {kAb + "y = Min(a, b)", {1, 2, 2, 4}},
      {kAb + "y = GreaterEqual(a, b)", {0, 0, 1, 1}},
      {kAb + "y = AddN(a, a, a)", {3, 6, 9, 12}},
      {kAb + "y = SumTo(a) {shape=[2]}", {4, 6}},
      {kAb + "y = SumTo(a) {shape=[2,1]}", {3, 7}},
      {kAb + "y = Expand(b) {shape=[2,2]}", {2, 4, 2, 4}},
      {kI + "y = Add(a, b)", {9, -5, 5}},
      {kI + "y = Mul(a, b)", {14, -14, 0}},
      {kI + "y = Div(a, b)", {3, -3, 0}},
      {kI + "y = Max(a, b)", {7, 2, 5}},
      {kM + "y = MatMul(a, b)", {5, 11, 14, 23}},
      {kM + "y = MatMul(b, a) {trans_a=1, trans_b=1}", {5, 14, 11, 23}},
      {"a = constant f64[2,1,2] 1 2 3 4; b = constant f64[2,1] 10 1; y = MatMul(a, b)", {12, 34}},
      {kM + "c = constant f64[2] 1 -1; y = Gemm(a, b, c) {alpha=2, beta=10}", {20, 12, 38, 36}},
  };
}

std::vector<Known> WindowValues() {
  const std::string k = "w = constant f64[1,1,2,2] 1 10 100 1000; ";
  return {
      // A convolution does not flip its kernel.
      {kPlane + k + "y = Conv(x, w) {strides=[1,1], pads=[0,0,0,0], dilations=[1,1]}",
       {5421, 6532, 8754, 9865}},
      {kPlane + k +
           "b = constant f64[1] 0.5; "
           "y = Conv(x, w, b) {strides=[2,2], pads=[1,1,0,0], dilations=[1,1]}",
       {1000.5, 3200.5, 7040.5, 9865.5}},
      {kPlane + k + "y = Conv(x, w) {strides=[1,1], pads=[0,0,0,0], dilations=[2,2]}", {9731}},
      {"x = constant f64[1,2,1] 2 3; w = constant f64[4,1,1] 1 2 3 4; "
       "y = Conv(x, w) {strides=[1], pads=[0,0], dilations=[1], groups=2}",
       {2, 4, 9, 12}},
      {kPlane + "y, i = MaxPool(x) {kernel=[2,2], strides=[1,1], pads=[0,0,0,0], dilations=[1,1]}",
       {5, 6, 8, 9}},
      {kPlane + "z, y = MaxPool(x) {kernel=[2,2], strides=[2,2], pads=[0,0,1,1], dilations=[1,1]}",
       {3, 2, 1, 0}},
      {"x = constant f64[1,1,4] 2 2 1 1; "
       "z, y = MaxPool(x) {kernel=[2], strides=[2], pads=[0,0], dilations=[1]}",
       {0, 0}},
      {kPlane + "y = AveragePool(x) {kernel=[2,2], strides=[2,2], pads=[0,0,1,1], "
                "counted_pads=[0,0,0,0]}",
       {3, 4.5, 7.5, 9}},
      {kPlane + "y = AveragePool(x) {kernel=[2,2], strides=[2,2], pads=[0,0,1,1], "
                "counted_pads=[0,0,1,1]}",
       {3, 2.25, 3.75, 2.25}},
      {kPlane + "y = AveragePool(x) {kernel=[2,2], strides=[2,2], pads=[1,1,0,0], "
                "counted_pads=[1,0,0,0]}",
       {0.5, 1.25, 5.5, 7}},
  };
}

std::vector<Known> NormValues() {
  const double s = std::sqrt(4 + 1e-5);
  return {
      {"x = constant f64[2,1,1] 1 5; s = constant f64[1] 2; b = constant f64[1] 1; "
       "m = constant f64[1] 3; v = constant f64[1] 4; y = BatchNormInference(x, s, b, m, v)",
       {1 - 4 / s, 1 + 4 / s}},
      {kRows + "y = LayerNorm(x, s, b) {axis=1, epsilon=0}", {-2, 4, -2, 4}},
      {kRows + "y = LayerNorm(x, s) {axis=1, epsilon=0}", {-2, 3, -2, 3}},
      {kRows + "z, y = LayerNorm(x, s, b) {axis=1, epsilon=0}", {2, 30}},
      {kRows + "z, m, y = LayerNorm(x, s) {axis=1, epsilon=3}", {0.5, 1 / std::sqrt(403)}},
      {"x = constant f64[2,2] 1 7 -3 4; s = constant f64[2] 2 10; "
       "y = RmsNorm(x, s) {axis=1, epsilon=0}",
       {2.0 / 5, 70.0 / 5, -6 / std::sqrt(12.5), 40 / std::sqrt(12.5)}},
      {"x = constant f64[2] 1 7; s = constant f64[2] 2 10; z, y = RmsNorm(x, s) {axis=0, "
       "epsilon=11}",
       {1.0 / 6}},
      {"x = constant f64[1,3] 1 2 3; y = Lrn(x) {size=3, alpha=3, beta=1, bias=1}",
       {1.0 / 6, 2.0 / 15, 3.0 / 14}},
      {"x = constant f64[1,3] 1 2 3; y = Lrn(x) {size=2, alpha=2, beta=1, bias=1}",
       {1.0 / 6, 2.0 / 14, 3.0 / 10}},
      {"x = constant f64[2,2] 0 1000 0 1000; y = Softmax(x) {axis=1}", {0, 1, 0, 1}},
      {"x = constant f64[2,2] 0 1000 0 1000; y = Softmax(x) {axis=0}", {0.5, 0.5, 0.5, 0.5}},
      {"x = constant f64[1,2] 0 1000; y = LogSoftmax(x) {axis=1}", {-1000, 0}},
  };
}

std::vector<Known> MovementValues() {
  return {
      {kCube + "y = Reshape(x) {shape=[12]}", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {kCube + "y = Transpose(x) {perm=[2,0,1]}", {0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}},
      {kCube + "z = constant f64[2,1,3] 20 21 22 23 24 25; y = Concat(z, x) {axis=1}",
       {20, 21, 22, 0, 1, 2, 3, 4, 5, 23, 24, 25, 6, 7, 8, 9, 10, 11}},
      {kCube + "y = Slice(x) {starts=[1,2], ends=[2,-1], axes=[0,2], steps=[1,-2]}", {8, 6, 11, 9}},
      {"d = constant f64[2] 7 8; y = SliceGrad(d) {shape=[4], starts=[3], ends=[0], axes=[0], "
       "steps=[-2]}",
       {0, 8, 0, 7}},
      {"x = constant f64[2,2] 1 2 3 4; y = Pad(x) {pads=[1,-1,0,1], value=9}", {9, 9, 2, 9, 4, 9}},
      {kCube + "i = constant i64[3] 1 -2 5; y = Gather(x, i) {axis=1}",
       {3, 4, 5, 0, 1, 2, 0, 0, 0, 9, 10, 11, 6, 7, 8, 0, 0, 0}},
      {"d = constant f64[4] 1 2 4 8; i = constant i32[4] 1 -1 1 7; "
       "y = GatherGrad(d, i) {axis=0, shape=[3]}",
       {0, 5, 2}},
      {"c = constant bool[3] 1 0 1; a = constant i64[3] 1 2 3; b = constant i64[] 9; "
       "y = Where(c, a, b)",
       {1, 9, 3}},
      {kCube + "y = ToChannelsLast(x)", {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}},
      {kCube + "z = ToChannelsLast(x); y = ToPlain(z)", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
      {kCube + "y = ReduceSum(x) {axes=[0,2]}", {24, 42}},
      {kCube + "y = ReduceMean(x) {axes=[1,2], keepdims=0}", {2.5, 8.5}},
      {kCube + "y = ReduceMax(x) {axes=[0]}", {6, 7, 8, 9, 10, 11}},
      {kCube + "y = ReduceMin(x) {axes=[2]}", {0, 3, 6, 9}},
  };
}

std::vector<Known> LossValues() {
  // Scores with p = 1/4, 3/4 and 1/2, 1/2.
  const std::string x = "t = constant f64[2,2] 1 3 1 1; x = Log(t); ";
  const double l4 = std::log(4), l43 = std::log(4.0 / 3), l2 = std::log(2);
  const std::string labels = "l = constant i64[2] 0 1; ";
  const std::string one = "l = constant i64[2] -100 1; ";
  const std::string weight = "w = constant f64[2] 1 3; ";
  return {
      {x + labels + "y = CrossEntropy(x, l)", {(l4 + l2) / 2}},
      {x + labels + "z, y = CrossEntropy(x, l)", {-l4, -l43, -l2, -l2}},
      {x + labels + "y = CrossEntropy(x, l) {reduction=\"sum\"}", {l4 + l2}},
      {x + labels + "y = CrossEntropy(x, l) {reduction=\"none\"}", {l4, l2}},
      {x + one + "y = CrossEntropy(x, l)", {l2}},
      {x + one + "y = CrossEntropy(x, l) {reduction=\"none\"}", {0, l2}},
      {x + labels + weight + "y = CrossEntropy(x, l, w)", {(l4 + 3 * l2) / 4}},
      {x + labels + "y = CrossEntropy(x, l) {label_smoothing=0.5, reduction=\"none\"}",
       {0.75 * l4 + 0.25 * l43, l2}},
      {x + labels + weight + "y = CrossEntropy(x, l, w) {label_smoothing=0.5, reduction=\"none\"}",
       {0.75 * l4 + 0.75 * l43, 0.25 * l2 + 2.25 * l2}},
      {"x = constant f64[1,2] 0 0; l = constant i64[1] -100; y = CrossEntropy(x, l)", {kNan}},
      {"x = constant f64[2,2] -1 -2 -3 -4; " + labels + "y = NllLoss(x, l)", {2.5}},
      {"p = constant f64[2] 1 5; t = constant f64[2] 0 2; y = MseLoss(p, t)", {5}},
      {"p = constant f64[2] 1 5; t = constant f64[2] 0 2; y = MseLoss(p, t) {reduction=\"none\"}",
       {1, 9}},
      {"p = constant f64[2] 0 0; t = constant f64[2] 0.25 1; y = BceWithLogits(p, t)", {l2}},
      {"p = constant f64[2] 1000 -1000; t = constant f64[2] 0 0; "
       "y = BceWithLogits(p, t) {reduction=\"none\"}",
       {1000, 0}},
  };
}

std::vector<Known> MetricValues() {
  const std::string x = "x = constant f64[3,3] 1 2 2 5 4 3 0 0 9; l = constant i64[3] 2 1 2; ";
  const std::string two = "v = constant i64[1] 2; ";
  const std::string pt = "p = constant f64[2,2] 1 -1 3 0; t = constant f64[2,2] 1 1 0 1; ";
  return {
      // Class 1 ties with label 2 of the first row and comes before it.
      {x + "y, c = TopKCorrect(x, l) {k=1}", {1}},
      {x + "y, c = TopKCorrect(x, l) {k=2}", {3}},
      {x + two + "y, c = TopKCorrect(x, l, v) {k=2}", {2}},
      {x + two + "z, y = TopKCorrect(x, l, v) {k=2}", {2}},
      {x + "z, y = TopKCorrect(x, l) {k=1, ignore_index=2}", {1}},
      // The root of -1 is not a number.
      {"r = constant f64[1,2] -1 4; n = Sqrt(r); l = constant i64[1] 0; "
       "y, c = TopKCorrect(n, l) {k=1}",
       {0}},
      {"r = constant f64[2] -1 -1; n = Sqrt(r); t = constant f64[2] 0 1; y, c = BinaryCorrect(n, "
       "t)",
       {0}},
      {"x = constant f64[2,2] 0 0 0 0; l = constant i64[2] 0 1; z, y = CrossEntropySum(x, l)", {2}},
      {pt + "y, c = MseSum(p, t)", {4 + 9 + 1}},
      {pt + "v = constant i64[1] 1; y, c = MseSum(p, t, v)", {4}},
      {pt + "v = constant i64[1] 1; z, y = MseSum(p, t, v)", {2}},
      {pt + "v = constant i64[1] 99; z, y = MseSum(p, t, v)", {4}},
      {pt + "y, c = BinaryCorrect(p, t)", {2}},
      {"p = constant f64[1] 0; t = constant f64[1] 1; v = constant i64[1] 0; y, c = BceSum(p, t, "
       "v)",
       {0}},
  };
}

std::vector<Known> AllValues() {
  std::vector<Known> all;
  for (const auto& family : {ElementwiseValues(), BinaryValues(), WindowValues(), NormValues(),
                             MovementValues(), LossValues(), MetricValues()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Table, RefOps, ::testing::ValuesIn(AllValues()),
                         [](const auto& info) { return absl::StrCat("case", info.index); });

TEST(RefBatchNorm, NormalisesByTheBatchAndUpdatesItsRunningStatistics) {
  const TensorMap results = Values(
      "x = constant f64[2,2,2] 1 3 10 10 5 7 10 14; s = constant f64[2] 2 1; "
      "b = constant f64[2] 1 0; m = buffer f64[2]; v = buffer f64[2]; "
      "y, mean, var = BatchNorm(x, s, b, m, v) {epsilon=0.0, momentum=0.25}",
      {{"m", Doubles({2}, {0, 4})}, {"v", Doubles({2}, {1, 1})}});
  EXPECT_THAT(ToDoubles(results.at("mean")), ElementsAre(4, 11));
  EXPECT_THAT(ToDoubles(results.at("var")), ElementsAre(5, 3));
  EXPECT_THAT(ToDoubles(results.at("m")), ElementsAre(1, 0.75 * 4 + 0.25 * 11));
  EXPECT_THAT(ToDoubles(results.at("v")),
              ElementsAre(DoubleNear(0.75 + 0.25 * 20 / 3, 1e-12), 0.75 + 0.25 * 4));
  EXPECT_NEAR(ToDoubles(results.at("y"))[0], 1 - 2 * 3 / std::sqrt(5), 1e-12);
}

TEST(RefUpdates, SgdWithMomentumStartsFromTheGradient) {
  const std::string text =
      "p = param f64[1]; u = slot f64[1] of p; g = constant f64[1] 2; hyper = scalar f64[4]; "
      "SgdUpdate(p, g, hyper, u) {momentum=0.5, dampening=0.25, weight_decay=0.1, lr_scale=2} "
      "@update";
  const auto step = [&](double param, double velocity, double count) {
    const TensorMap results = Values(text, {{"p", Doubles({1}, {param})},
                                            {"u", Doubles({1}, {velocity})},
                                            {"hyper", Doubles({4}, {0.05, count, 0, 0})}});
    return std::pair(ToDoubles(results.at("p"))[0], ToDoubles(results.at("u"))[0]);
  };
  EXPECT_THAT(step(10, 99, 1), ::testing::Pair(DoubleNear(9.7, 1e-12), DoubleNear(3, 1e-12)));
  EXPECT_THAT(step(10, 4, 2),
              ::testing::Pair(DoubleNear(10 - 0.1 * 4.25, 1e-12), DoubleNear(4.25, 1e-12)));
}

TEST(RefUpdates, NesterovLooksAhead) {
  const TensorMap results = Values(
      "p = param f64[1]; u = slot f64[1] of p; g = constant f64[1] 2; hyper = scalar f64[4]; "
      "SgdUpdate(p, g, hyper, u) {momentum=0.5, nesterov=1} @update",
      {{"p", Doubles({1}, {10})},
       {"u", Doubles({1}, {4})},
       {"hyper", Doubles({4}, {0.1, 7, 0, 0})}});
  EXPECT_NEAR(ToDoubles(results.at("p"))[0], 10 - 0.1 * (2 + 0.5 * 4), 1e-12);
}

// torch.optim.swa_utils.AveragedModel with get_ema_avg_fn: the first step copies.
TEST(RefUpdates, TheAverageBeginsAsTheFirstStepsParameter) {
  const std::string text =
      "p = param f64[1]; e = slot f64[1] of p; g = constant f64[1] 2; hyper = scalar f64[4]; "
      "SgdUpdate(p, g, hyper, -, e) {ema_decay=0.75} @update";
  const auto average = [&](double before, double count) {
    const TensorMap results = Values(text, {{"p", Doubles({1}, {10})},
                                            {"e", Doubles({1}, {before})},
                                            {"hyper", Doubles({4}, {0.5, count, 0, 0})}});
    EXPECT_EQ(ToDoubles(results.at("p"))[0], 9);
    return ToDoubles(results.at("e"))[0];
  };
  EXPECT_EQ(average(99, 1), 9);
  EXPECT_DOUBLE_EQ(average(5, 2), 0.75 * 5 + 0.25 * 9);
}

// torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
TEST(RefUpdates, TheClipFactorIsPyTorchs) {
  const auto factor = [](double max_norm) {
    const TensorMap results =
        Values(absl::StrCat("a = constant f64[2] 3 -4; b = constant f64[1,1] 12; "
                            "y = ClipFactor(a, b) {max_norm=",
                            max_norm, "}"),
               {});
    return ToDoubles(results.at("y"))[0];
  };
  EXPECT_DOUBLE_EQ(factor(2.5), 2.5 / (13 + 1e-6));
  EXPECT_DOUBLE_EQ(factor(13), 13 / (13 + 1e-6));
  EXPECT_EQ(factor(13.5), 1);
}

TEST(RefUpdates, AdamDecaysByGradientAndAdamWByParameter) {
  for (const int decoupled : {0, 1}) {
    const TensorMap results = Values(
        absl::StrCat("p = param f64[1]; m = slot f64[1] of p; v = slot f64[1] of p; "
                     "g = constant f64[1] 2; hyper = scalar f64[4]; "
                     "AdamUpdate(p, g, hyper, m, v) {weight_decay=0.5, epsilon=0.0, beta1=0.5, "
                     "beta2=0.75, decoupled=",
                     decoupled, "} @update"),
        {{"p", Doubles({1}, {10})}, {"hyper", Doubles({4}, {0.1, 2, 0, 0})}});
    const double grad = decoupled ? 2 : 7;
    const double m = 0.5 * grad, v = 0.25 * grad * grad;
    EXPECT_NEAR(ToDoubles(results.at("m"))[0], m, 1e-12);
    EXPECT_NEAR(ToDoubles(results.at("v"))[0], v, 1e-12);
    const double start = decoupled ? 10 * (1 - 0.1 * 0.5) : 10;
    EXPECT_NEAR(ToDoubles(results.at("p"))[0],
                start - 0.1 * (m / 0.75) / std::sqrt(v / (1 - 0.75 * 0.75)), 1e-12);
  }
}

TEST(RefDropout, FollowsThePhiloxStreamOfSeedStepAndNode) {
  const double ratio = 0.25;
  const TensorMap results = Values(
      "x = constant f64[50] 1; rng = constant i64[2] 7 3; "
      "y, mask = Dropout(x, rng) {ratio=0.25, stream=5}; d = DropoutGrad(y, mask) {ratio=0.25}");
  int kept = 0;
  for (size_t i = 0; i < 50; ++i) {
    const PhiloxCounter words = Philox({static_cast<uint32_t>(i / 4), 0, 5, 3}, PhiloxKeyFrom(7));
    const bool keep = UniformFloat(words[i % 4]) >= ratio;
    EXPECT_EQ(ToDoubles(results.at("mask"))[i], keep ? 1 : 0);
    EXPECT_EQ(ToDoubles(results.at("y"))[i], keep ? 1 / 0.75 : 0);
    EXPECT_EQ(ToDoubles(results.at("d"))[i], keep ? 1 / 0.75 / 0.75 : 0);
    kept += keep;
  }
  EXPECT_GT(kept, 25);
  EXPECT_LT(kept, 50);
}

TEST(RefNan, IsPassedOnAndNotHidden) {
  const TensorMap feeds = {{"x", Doubles({1, 1, 3}, {1, kNan, kInf})}};
  const std::string x = "x = buffer f64[1,1,3]; ";
  for (const char* op : {"Relu(x)", "Clip(x) {min=0, max=1}", "LeakyRelu(x)", "Sign(x)",
                         "HardTanh(x)", "HardSigmoid(x)", "Max(x, x)", "Min(x, x)"}) {
    EXPECT_TRUE(std::isnan(ToDoubles(Values(x + "y = " + op, feeds).at("y"))[1])) << op;
  }
  for (const char* op : {"MaxPool(x) {kernel=[3], strides=[1], pads=[0,0], dilations=[1]}",
                         "ReduceMax(x) {axes=[2]}", "ReduceMin(x) {axes=[2]}"}) {
    EXPECT_TRUE(std::isnan(ToDoubles(Values(x + "y = " + op, feeds).at("y"))[0])) << op;
  }
}

TEST(RefEmpty, TensorsWithoutElementsAreFine) {
  EXPECT_EQ(Values("x = input f64[0,3]; y = Relu(x)").at("y").data.size(), 0u);
  EXPECT_EQ(Values("x = input f64[0,3]; y = Softmax(x) {axis=1}").at("y").data.size(), 0u);
  EXPECT_THAT(ToDoubles(Values("x = input f64[0,3]; y = SumTo(x) {shape=[3]}").at("y")),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(ToDoubles(Values("a = input f64[2,0]; b = input f64[0,1]; y = MatMul(a, b)").at("y")),
              ElementsAre(0, 0));
}

// The float kernels are the double kernels, rounded: on every use in the gradient check's table.
TEST(RefFloat, AgreesWithDouble) {
  for (const GradCase& test : GradCases()) {
    SCOPED_TRACE(test.text);
    const std::string single = absl::StrReplaceAll(test.text, {{"f64", "f32"}});
    auto wide = graph::ParseGraph(test.text);
    auto narrow = graph::ParseGraph(single);
    ASSERT_TRUE(wide.ok() && narrow.ok()) << narrow.status();
    TensorMap feeds[2];
    for (const graph::Value& value : narrow->values) {
      if (value.role != Role::kInput && value.role != Role::kBuffer) continue;
      const HostTensor x = testing::RandomTensor(
          value.type, static_cast<uint64_t>(value.id.value()), test.min, test.max);
      feeds[0][value.name] = FromDoubles({DType::kF64, value.type.shape}, ToDoubles(x));
      feeds[1][value.name] = x;
    }
    auto expected = testing::RunGraph(*Ref(), *wide, feeds[0]);
    auto actual = testing::RunGraph(*Ref(), *narrow, feeds[1]);
    ASSERT_TRUE(expected.ok()) << expected.status();
    ASSERT_TRUE(actual.ok()) << actual.status();
    EXPECT_THAT(ToDoubles(actual->at("y")),
                Pointwise(::testing::NanSensitiveDoubleNear(2e-6), ToDoubles(expected->at("y"))));
  }
}

// Whatever a shape rule accepts, the reference device computes, within its outputs' bytes.
TEST(RefTable, RunsEveryUseThatTheOpTableAccepts) {
  auto device = Ref();
  std::set<std::string> ran;
  for (const graph::OpCase& test : graph::AcceptedCases()) {
    SCOPED_TRACE(graph::Describe(test));
    Graph graph;
    const std::vector<ValueId> inputs = graph::AddInputs(graph, test);
    ASSERT_TRUE(graph.AddNode(test.op, "node", inputs, test.attrs).ok());
    TensorMap feeds;
    for (ValueId id : inputs) {
      if (!id.valid()) continue;
      const graph::Value& value = graph.value(id);
      feeds[value.name] = testing::RandomTensor(value.type, 1, 0, 2);
    }
    auto results = testing::RunGraph(*device, graph, feeds);
    EXPECT_TRUE(results.ok()) << results.status();
    ran.insert(test.op);
  }
  for (const graph::OpDef* op : graph::AllOps()) {
    EXPECT_TRUE(ran.count(std::string(op->name)) > 0) << op->name << " did not run";
  }
}

}  // namespace
}  // namespace ebb::device
