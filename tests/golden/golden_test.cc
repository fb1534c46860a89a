// Gradients and short training runs of whole networks against PyTorch in float64 (fixtures made by
// make_golden.py), on every host device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/golden/trainer.h"
#include "tests/testing/test_device.h"

namespace ebb {
namespace {

using golden::Arrays;
using golden::Distance;
using golden::Norm;
using golden::OptimizerOf;
using golden::Trainer;
using golden::Under;
using testing::Placement;
using testing::ToDoubles;

constexpr int kSteps = 20;

class Golden : public ::testing::TestWithParam<std::tuple<std::string, const char*>> {
 protected:
  void SetUp() override {
    auto device = testing::OpenOnOneThread(std::get<0>(GetParam()));
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    network_ = std::get<1>(GetParam());
    arrays_ = golden::ReadArrays(network_ + ".npz");
  }

  std::unique_ptr<device::Device> device_;
  std::string network_;
  Arrays arrays_;
};

TEST_P(Golden, GradientsAreAsExactAsPyTorchs) {
  golden::ExpectGradients(*device_, network_ + ".onnx", arrays_,
                          {.loss = 1e-6, .gradient = 1e-5, .floor = 1e-7});
}

TEST_P(Golden, TwentyStepsFollowPyTorchs) {
  for (const std::string run : {"sgd", "adam", "adamw"}) {
    SCOPED_TRACE(run);
    const std::vector<double> options = ToDoubles(arrays_.at(run + "/options"));
    const auto trainer = Trainer::Make(*device_, network_ + ".onnx", arrays_,
                                       OptimizerOf(run, options), Placement::kShared);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    const std::vector<double> losses = ToDoubles(arrays_.at(run + "/loss"));
    ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
    for (int step = 0; step < kSteps; ++step) {
      const absl::StatusOr<double> loss = (*trainer)->Step(step, options[0]);
      ASSERT_TRUE(loss.ok()) << loss.status();
      const double expected = losses[static_cast<size_t>(step)];
      EXPECT_NEAR(*loss, expected, (step < 10 ? 1e-5 : 1e-4) * expected) << "step " << step;
    }
    const auto expected = Under(arrays_, run + "/final/");
    const std::vector<double> own_error = ToDoubles(arrays_.at(run + "/final_error"));
    ASSERT_EQ(expected.size(), own_error.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto& [name, value] = expected[i];
      const std::vector<double> actual = (*trainer)->Get(name);
      ASSERT_EQ(actual.size(), value.size()) << name;
      EXPECT_LE(Distance(actual, value), std::max(1e-5, 10 * own_error[i]) * Norm(value)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Devices, Golden,
    ::testing::Combine(::testing::ValuesIn(testing::TestDevices({"ref", "cpu"})),
                       ::testing::Values("mlp", "cnn", "resnet", "lenet", "vgg", "mobilenet",
                                         "densenet")),
    [](const auto& info) {
      return absl::StrCat(testing::TestName(std::get<0>(info.param)), "_", std::get<1>(info.param));
    });

}  // namespace
}  // namespace ebb
