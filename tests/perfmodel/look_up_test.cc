#include "perfmodel/look_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/status/status.h"

namespace ebb::perfmodel {
namespace {

using ::testing::HasSubstr;

constexpr double kCache = 1 << 20;

LookUp Of(int64_t rows, double width, double look_ups, double bags, double skew) {
  return {.rows = static_cast<double>(rows),
          .width = width,
          .look_ups = look_ups,
          .bags = bags,
          .popularity = ZipfPopularity(rows, skew)};
}

// A machine by the law that look-ups from memory cost more than those from its cache.
double Truth(const LookUp& look_up) {
  const double row = look_up.row_bytes();
  const double streamed = 8 + look_up.bags / look_up.look_ups * row;  // indices and results
  const double hits = HitRate(look_up.popularity, kCache / row, streamed / row);
  return 3 + look_up.look_ups * 0.01 + look_up.look_ups * (1 - hits) * 0.08 +
         look_up.look_ups * (1 - hits) * look_up.row_bytes() * 2e-4;
}

std::vector<LookUpSample> Samples(LookUpPass pass, size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(0, 1);
  std::vector<LookUpSample> samples;
  for (size_t i = 0; i < count; ++i) {
    const double bags = std::exp2(4 + 7 * draw(random));
    const LookUp look_up =
        Of(static_cast<int64_t>(std::exp2(8 + 10 * draw(random))), 16 << (random() % 4),
           bags * (1 + random() % 20), bags, draw(random) * 1.3);
    samples.push_back({look_up, pass, Truth(look_up)});
  }
  return samples;
}

TEST(LookUpModelTest, FindsTheLawOfAMachine) {
  const auto model = LookUpModel::Fit(Samples(LookUpPass::kForward, 60, 1));
  ASSERT_TRUE(model.ok()) << model.status();
  for (const LookUpSample& sample : Samples(LookUpPass::kForward, 30, 2)) {
    const auto estimate = model->Predict(sample.look_up, LookUpPass::kForward);
    ASSERT_TRUE(estimate.ok()) << estimate.status();
    EXPECT_NEAR(estimate->median / sample.micros, 1, 0.02);
  }
  EXPECT_THAT(model->Predict(Samples(LookUpPass::kForward, 1, 3)[0].look_up, LookUpPass::kBackward)
                  .status()
                  .message(),
              HasSubstr("not measured"));
}

TEST(LookUpModelTest, SkewedLookUpsAreFasterAndMoreOfThemSlower) {
  const LookUpModel model = LookUpModel::APriori(*FindHardware("v100-16gb"));
  for (const LookUpPass pass : {LookUpPass::kForward, LookUpPass::kBackward}) {
    const auto micros = [&](double look_ups, double skew) {
      return model.Predict(Of(5'000'000, 64, look_ups, 4096, skew), pass)->median;
    };
    EXPECT_LT(micros(1e5, 1.2), micros(1e5, 0.6));
    EXPECT_LT(micros(1e5, 0.6), micros(1e5, 0));
    EXPECT_LT(micros(1e5, 0.6), micros(2e5, 0.6));
  }
}

TEST(LookUpModelTest, TablesAddUpAndTheirOrderDoesNotMatter) {
  const LookUpModel model = LookUpModel::APriori(*FindHardware("a100-80gb"));
  const LookUp a = Of(100'000, 64, 1e4, 512, 0.8), b = Of(5'000'000, 32, 1e5, 512, 0.5);
  const double both = model.Predict({{a, b}}, LookUpPass::kForward)->median;
  EXPECT_NEAR(model.Predict({{b, a}}, LookUpPass::kForward)->median, both, 1e-9 * both);
  EXPECT_GE(both, model.Predict(a, LookUpPass::kForward)->median);
}

TEST(LookUpModelTest, RefusesWhatCannotBe) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(LookUpModel::Fit(Samples(LookUpPass::kForward, 5, 1)).status()));
  std::vector<LookUpSample> samples = Samples(LookUpPass::kForward, 60, 1);
  samples[3].micros = 0;
  EXPECT_FALSE(LookUpModel::Fit(samples).ok());
  const LookUpModel model = LookUpModel::APriori(*FindHardware("a100-80gb"));
  LookUp look_up = Of(100, 16, 10, 10, 0);
  look_up.look_ups = -1;
  EXPECT_FALSE(model.Predict(look_up, LookUpPass::kForward).ok());
}

}  // namespace
}  // namespace ebb::perfmodel
