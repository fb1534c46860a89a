// Own kernels of the CUDA device at the edges of what they take: nothing to sum, numbers that are
// none, statistics of large means; and rows longer than a block, next to `ref`.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "graph/text.h"
#include "tests/device/cuda_double/open_double.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

using graph::DType;
using graph::TensorMap;

TensorMap RunOnDouble(const std::string& text, const TensorMap& feeds = {}) {
  const auto graph = graph::ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  if (!graph.ok()) return {};
  auto result = RunGraph(*OpenCudaDouble().device, *graph, feeds);
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : TensorMap();
}

void ExpectValues(const TensorMap& got, const char* name, const std::vector<double>& want) {
  const std::vector<double> values = ToDoubles(got.at(name));
  ASSERT_EQ(values.size(), want.size()) << name;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(values[i])) << name << " " << i << " is " << values[i];
    } else if (std::isinf(want[i])) {
      EXPECT_EQ(values[i], want[i]) << name << " " << i;
    } else {
      EXPECT_NEAR(values[i], want[i], 1e-6) << name << " " << i;
    }
  }
}

TEST(CudaKernelEdges, SumsOfNothing) {
  const auto got = RunOnDouble(
      "x = constant f32[3,0]; s = ReduceSum(x) {axes=[1]}; n = ReduceSum(x) {axes=[0]}");
  ExpectValues(got, "s", {0, 0, 0});
  EXPECT_TRUE(ToDoubles(got.at("n")).empty());
}

TEST(CudaKernelEdges, ReductionsOfWhatIsNoNumber) {
  // Rows: one with a NaN, one with an infinity, one of both infinities.
  const auto got = RunOnDouble(
      "a = constant f32[3,3] -1 4 4 1 0 1 0 1 0; r = constant f32[3,3] 1 1 1 1 -1 1 -1 1 1; "
      "q = Sqrt(a); b = Reciprocal(a); c = Mul(b, r); "
      "max = ReduceMax(q) {axes=[1]}; min = ReduceMin(q) {axes=[1]}; sum = ReduceSum(c) "
      "{axes=[1]}");
  ExpectValues(got, "max", {NAN, 1, 1});
  ExpectValues(got, "min", {NAN, 0, 0});
  ExpectValues(got, "sum", {-0.5, -INFINITY, NAN});
}

TEST(CudaKernelEdges, ASoftmaxOfMaskedRowsGivesZerosWhereAsked) {
  const auto got = RunOnDouble(
      "r = constant f32[2,3] 0 0 0 0 1 3; x = Log(r); t = Transpose(x) {perm=[1,0]}; "
      "a = Softmax(x) {axis=1, zero_masked=1}; b = Softmax(t) {axis=0, zero_masked=1}; "
      "c = Softmax(x) {axis=1}; g = SoftmaxGrad(r, a) {axis=1}");
  ExpectValues(got, "a", {0, 0, 0, 0, 0.25, 0.75});
  ExpectValues(got, "b", {0, 0, 0, 0.25, 0, 0.75});
  ExpectValues(got, "c", {NAN, NAN, NAN, 0, 0.25, 0.75});
  ExpectValues(got, "g", {0, 0, 0, 0, -0.375, 0.375});
}

TEST(CudaKernelEdges, ScoresThatAreNoNumbersAreNeverCorrect) {
  const auto got = RunOnDouble(
      "r = constant f32[2,2] -1 4 4 -1; n = Sqrt(r); l = constant i64[2] 0 0; "
      "t = constant f32[2,2] 0 0 0 0; a, b = TopKCorrect(n, l) {k=1}; c, d = BinaryCorrect(n, t); "
      "e = ClassCounts(n, l)");
  ExpectValues(got, "a", {1});
  ExpectValues(got, "b", {2});
  ExpectValues(got, "c", {0});
  // The first class is the best where it is no number: nothing is above it.
  ExpectValues(got, "e", {2, 0, 0, 0, 0, 0});
}

// Rows of more than a warp's and a block's lanes, chunks of long sums, and a large mean.
TEST(CudaKernelEdges, LongRowsAgreeWithRef) {
  const std::string text =
      "x = input f32[3,9001]; w = input f32[9001]; b = input f32[9001]; c = input f32[3,9001]; "
      "s = Softmax(x) {axis=1}; l = LogSoftmax(x) {axis=1}; t = ReduceSum(x) {axes=[0,1]}; "
      "y, m, v = LayerNorm(c, w, b) {axis=1}; dx, dw, db = LayerNormGrad(x, c, w, m, v) {axis=1}; "
      "f = Transpose(x) {perm=[1,0]}; g = ReduceSum(f) {axes=[0]}; h = ReduceMax(f) {axes=[0]}";
  const auto graph = graph::ParseGraph(text);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const TensorMap feeds = {{"x", RandomTensor({DType::kF32, {3, 9001}}, 1, -8, 8)},
                           {"w", RandomTensor({DType::kF32, {9001}}, 2)},
                           {"b", RandomTensor({DType::kF32, {9001}}, 3)},
                           {"c", RandomTensor({DType::kF32, {3, 9001}}, 4, 99, 101)}};
  const auto want = RunGraph(**device::OpenDevice("ref", {}), *graph, feeds);
  const auto got = RunGraph(*OpenCudaDouble().device, *graph, feeds);
  ASSERT_TRUE(want.ok() && got.ok()) << want.status() << got.status();
  for (const char* name : {"s", "l", "t", "y", "m", "v", "dx", "dw", "db", "g", "h"}) {
    const std::vector<double> a = ToDoubles(got->at(name)), b = ToDoubles(want->at(name));
    double difference = 0, norm = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      difference += (a[i] - b[i]) * (a[i] - b[i]);
      norm += b[i] * b[i];
    }
    EXPECT_LE(std::sqrt(difference / norm), 1e-5) << name;
  }
}

}  // namespace
}  // namespace ebb::testing
