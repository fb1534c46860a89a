#include <gtest/gtest.h>

#include <algorithm>

#include "tests/golden/trainer.h"

namespace ebb::golden {

using testing::ToDoubles;

void ExpectGradients(device::Device& device, const std::string& onnx, const Arrays& arrays,
                     Exactness exactness) {
  // The velocity of SGD with momentum after the first step is the gradient itself.
  graph::OptimizerSpec momentum;
  momentum.momentum = 0.9;
  const auto trainer = Trainer::Make(device, onnx, arrays, momentum, testing::Placement::kSeparate);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const absl::StatusOr<double> loss = (*trainer)->Step(0, 0);
  ASSERT_TRUE(loss.ok()) << loss.status();
  const double expected_loss = ToDoubles(arrays.at("loss"))[0];
  EXPECT_NEAR(*loss, expected_loss, exactness.loss * expected_loss);

  const auto expected = Under(arrays, "grad/");
  const std::vector<double> own_error = ToDoubles(arrays.at("grad_error"));
  ASSERT_EQ(expected.size(), own_error.size());
  double largest = 0;
  for (const auto& [name, gradient] : expected) largest = std::max(largest, Norm(gradient));
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto& [name, gradient] = expected[i];
    const std::vector<double> actual = (*trainer)->GetSlot(name);
    ASSERT_EQ(actual.size(), gradient.size()) << name;
    const double relative = std::max(exactness.gradient, 3 * own_error[i]);
    EXPECT_LE(Distance(actual, gradient), relative * Norm(gradient) + exactness.floor * largest)
        << name << ": |gradient| = " << Norm(gradient) << ", the largest is " << largest;
  }
}

}  // namespace ebb::golden
