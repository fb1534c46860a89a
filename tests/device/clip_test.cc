// Clipped gradients against their definition: one step of plain SGD is the clipped gradient itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "device/device.h"
#include "graph/text.h"
#include "graph/training.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {
namespace {

constexpr int kRows = 4, kIn = 3, kOut = 2;
constexpr char kForward[] =
    "x = input f32[4,3]; w = param f32[3,2]; b = param f32[2]; "
    "y = Gemm(x, w, b); output y";

struct Step {
  std::vector<double> w, b;  // what a step of rate 1 takes away: the gradient that arrives there
};

graph::TensorMap Feeds() {
  return {{"x", RandomTensor({graph::DType::kF32, {kRows, kIn}}, 1, -2, 2)},
          {"label", RandomTensor({graph::DType::kF32, {kRows, kOut}}, 2, -2, 2)},
          {"w", RandomTensor({graph::DType::kF32, {kIn, kOut}}, 3)},
          {"b", RandomTensor({graph::DType::kF32, {kOut}}, 4)},
          {"ebb.hyper", FromDoubles({graph::DType::kF64, {4}}, {1, 1, 0, 0})}};
}

// Of the mean squared error of x w + b, by hand.
Step Gradient() {
  const graph::TensorMap feeds = Feeds();
  const auto x = ToDoubles(feeds.at("x")), t = ToDoubles(feeds.at("label")),
             w = ToDoubles(feeds.at("w")), b = ToDoubles(feeds.at("b"));
  Step step{std::vector<double>(kIn * kOut), std::vector<double>(kOut)};
  for (int r = 0; r < kRows; ++r) {
    for (int o = 0; o < kOut; ++o) {
      double y = b[o];
      for (int i = 0; i < kIn; ++i) y += x[r * kIn + i] * w[i * kOut + o];
      const double d = 2 * (y - t[r * kOut + o]) / (kRows * kOut);
      step.b[o] += d;
      for (int i = 0; i < kIn; ++i) step.w[i * kOut + o] += d * x[r * kIn + i];
    }
  }
  return step;
}

double Norm(const Step& step) {
  double squares = 0;
  for (const auto* part : {&step.w, &step.b}) {
    for (double g : *part) squares += g * g;
  }
  return std::sqrt(squares);
}

void ExpectStep(const graph::ClipSpec& clip, const Step& want) {
  graph::TrainingOptions options;
  options.loss.kind = graph::LossKind::kMse;
  options.clip = clip;
  const auto forward = graph::ParseGraph(kForward);
  ASSERT_TRUE(forward.ok()) << forward.status();
  const auto training = graph::BuildTrainingGraph(*forward, options);
  ASSERT_TRUE(training.ok()) << training.status();
  for (const char* name : {"ref", "cpu"}) {
    SCOPED_TRACE(name);
    const auto device = *device::OpenDevice(name, {});
    const auto lowered = device->Lower(*training);
    ASSERT_TRUE(lowered.ok()) << lowered.status();
    const auto after = RunGraph(*device, *lowered, Feeds(), Placement::kShared);
    ASSERT_TRUE(after.ok()) << after.status();
    for (const auto& [param, gradient] : {std::pair("w", want.w), std::pair("b", want.b)}) {
      const auto before = ToDoubles(Feeds().at(param)), now = ToDoubles(after->at(param));
      for (size_t i = 0; i < gradient.size(); ++i) {
        EXPECT_NEAR(before[i] - now[i], gradient[i], 2e-6) << param << "[" << i << "]";
      }
    }
  }
}

TEST(Clip, ByNormScalesAllGradientsByOneFactor) {
  Step want = Gradient();
  const double norm = Norm(want), limit = norm / 3;
  ASSERT_GT(norm, 0.5);
  for (auto* part : {&want.w, &want.b}) {
    for (double& g : *part) g *= limit / (norm + 1e-6);
  }
  EXPECT_NEAR(Norm(want), limit, 1e-5);
  ExpectStep({.norm = limit}, want);
}

TEST(Clip, ByNormLeavesGradientsBelowItAlone) { ExpectStep({.norm = 1e3}, Gradient()); }

TEST(Clip, ByValueCutsEveryElement) {
  Step want = Gradient();
  double largest = 0, limit = 0;
  for (auto* part : {&want.w, &want.b}) {
    for (double g : *part) largest = std::max(largest, std::abs(g));
  }
  limit = largest / 2;
  for (auto* part : {&want.w, &want.b}) {
    for (double& g : *part) g = std::clamp(g, -limit, limit);
  }
  ExpectStep({.value = limit}, want);
}

}  // namespace
}  // namespace ebb::testing
