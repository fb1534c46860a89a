// Mixed precision on the known networks: twenty steps in bf16 stay near PyTorch's in float64
// (fixtures made by make_networks.py).
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/golden/trainer.h"
#include "tests/testing/test_device.h"

namespace ebb {
namespace {

using golden::Trainer;
using testing::Placement;
using testing::ToDoubles;

constexpr int kSteps = 20;
// Of a loss, relative. bf16 has eight bits: PyTorch's autocast deviates as much
// (docs/precision.md).
constexpr double kNear = 0.015;

class MixedPrecision : public ::testing::TestWithParam<const char*> {};

TEST_P(MixedPrecision, TwentyStepsStayNearFloat64) {
  const golden::Arrays arrays = golden::ReadArrays(absl::StrCat(GetParam(), ".npz"));
  const auto device = device::OpenDevice(testing::TestDevice("cpu"), {.threads_per_stream = 1});
  ASSERT_TRUE(device.ok()) << device.status();
  const std::vector<double> options = ToDoubles(arrays.at("adamw/options"));
  const auto make = [&](graph::Precision precision) {
    return Trainer::Make(**device, absl::StrCat(GetParam(), ".torchscript.onnx"), arrays,
                         golden::OptimizerOf("adamw", options), Placement::kSeparate, precision);
  };
  const auto trainer = make(graph::Precision::kBf16);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto exact = make(graph::Precision::kFp32);
  ASSERT_TRUE(exact.ok()) << exact.status();
  const std::vector<double> losses = ToDoubles(arrays.at("adamw/loss"));
  double farthest = 0;
  bool differs = false;
  for (int step = 0; step < kSteps; ++step) {
    const absl::StatusOr<double> loss = (*trainer)->Step(step, options[0]);
    ASSERT_TRUE(loss.ok()) << loss.status();
    const absl::StatusOr<double> full = (*exact)->Step(step, options[0]);
    ASSERT_TRUE(full.ok()) << full.status();
    differs |= *loss != *full;
    const double expected = losses[static_cast<size_t>(step)];
    farthest = std::max(farthest, std::abs(*loss - expected) / expected);
  }
  EXPECT_LE(farthest, kNear);
  EXPECT_TRUE(differs) << "nothing was computed in bf16";
  RecordProperty("farthest", absl::StrCat(farthest));
  const absl::StatusOr<double> eval = (*trainer)->Evaluate(4);
  ASSERT_TRUE(eval.ok()) << eval.status();
  const double expected = ToDoubles(arrays.at("adamw/eval_loss"))[0];
  EXPECT_NEAR(*eval, expected, kNear * expected);
}

INSTANTIATE_TEST_SUITE_P(Networks, MixedPrecision,
                         ::testing::Values("lenet5", "resnet18", "vgg11_bn", "mobilenet_v2",
                                           "densenet121", "bert", "gpt2", "vit", "lstm_lm", "gru",
                                           "dlrm"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace ebb
