#include "runtime/rates.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ebb::runtime {
namespace {

// Steps of `each` microseconds from 0 on.
StepRate Steady(int64_t each, int steps) {
  StepRate rate;
  rate.Begin(Micros(0));
  for (int s = 1; s <= steps; ++s) rate.Step(Micros(each * s));
  return rate;
}

TEST(StepRate, IsExactForSteadyStepsShortAndLong) {
  EXPECT_NEAR(Steady(1000, 50).PerSecond(Micros(50'000)), 1000, 1e-6);
  EXPECT_NEAR(Steady(30'000'000, 3).PerSecond(Micros(90'000'000)), 1.0 / 30, 1e-9);
  EXPECT_NEAR(Steady(500, 1).PerSecond(Micros(500)), 2000, 1e-6);
}

TEST(StepRate, IsNothingBeforeTheFirstStep) {
  StepRate rate;
  EXPECT_EQ(rate.PerSecond(Micros(10)), 0);
  rate.Begin(Micros(5));
  EXPECT_EQ(rate.PerSecond(Micros(10)), 0);
}

TEST(StepRate, FollowsAChangeOfSpeed) {
  StepRate rate = Steady(1000, 5000);                                         // five seconds
  for (int s = 1; s <= 2000; ++s) rate.Step(Micros(5'000'000 + 10'000 * s));  // twenty
  EXPECT_NEAR(rate.PerSecond(Micros(25'000'000)), 100, 1);
}

TEST(StepRate, FallsWhenNoStepComes) {
  const StepRate rate = Steady(1000, 1000);
  EXPECT_NEAR(rate.PerSecond(Micros(1'001'000)), 1000, 1e-6);  // a step is under way
  EXPECT_LT(rate.PerSecond(Micros(2'000'000)), 500);
  EXPECT_LT(rate.PerSecond(Micros(60'000'000)), 1e-6);
}

TEST(DecayedSum, HalvesInItsHalfLifeAndTakesLateTerms) {
  DecayedSum sum;
  sum.Add(Micros(0), 8);
  const Micros later(static_cast<int64_t>(2e6 * std::log(2)));
  EXPECT_NEAR(sum.At(later), 4, 1e-5);
  sum.Add(later, 4);
  EXPECT_NEAR(sum.At(later), 8, 1e-5);
  sum.Add(Micros(0), 4);  // reported late: it has faded already
  EXPECT_NEAR(sum.At(later), 10, 1e-5);
}

}  // namespace
}  // namespace ebb::runtime
