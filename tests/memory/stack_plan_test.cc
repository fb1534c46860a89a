#include "memory/stack_plan.h"

#include <gtest/gtest.h>

#include "tests/memory/step_profiles.h"

namespace ebb::memory {
namespace {

constexpr Bytes kAlignment(256);

struct Quality {
  double peak;  // planned over live
  double mean;  // mean extent over mean live bytes
};

Quality Measure(const StepRanges& step) {
  const StackPlan plan = PlanStack(step.ranges, step.num_steps, kAlignment);
  EXPECT_TRUE(Verify(plan, step.ranges, kAlignment).ok());
  double extents = 0, live = 0;
  for (Bytes extent : plan.extent) extents += static_cast<double>(extent.count());
  for (const LiveRange& range : step.ranges) {
    live += static_cast<double>(AlignUp(range.bytes, kAlignment).count()) *
            (range.last - range.first + 1);
  }
  return {plan.peak / LivePeak(step.ranges, kAlignment), extents / live};
}

TEST(LivePeak, CountsDeathsBeforeBirths) {
  const std::vector<LiveRange> ranges = {{Bytes(100), 0, 1}, {Bytes(50), 1, 2}, {Bytes(100), 2, 3}};
  EXPECT_EQ(LivePeak(ranges, Bytes(1)), Bytes(150));
  EXPECT_EQ(LivePeak(ranges, Bytes(64)), Bytes(192));
  EXPECT_EQ(LivePeak({}, Bytes(64)), Bytes(0));
}

TEST(StackPlan, OfNothingIsEmpty) {
  const StackPlan plan = PlanStack({}, 3, kAlignment);
  EXPECT_EQ(plan.peak, Bytes(0));
  EXPECT_EQ(plan.extent, std::vector<Bytes>(3));
  EXPECT_TRUE(Verify(plan, {}, kAlignment).ok());
}

TEST(StackPlan, PutsWhatDiesLastLowest) {
  // Forward leaves a, b, c behind; backward takes them up in reverse order.
  const std::vector<LiveRange> ranges = {{Bytes(10), 0, 5}, {Bytes(20), 1, 4}, {Bytes(30), 2, 3}};
  const StackPlan plan = PlanStack(ranges, 6, Bytes(1));
  EXPECT_EQ(plan.offset, (std::vector<Bytes>{Bytes(0), Bytes(10), Bytes(30)}));
  EXPECT_EQ(plan.extent,
            (std::vector<Bytes>{Bytes(10), Bytes(30), Bytes(60), Bytes(60), Bytes(30), Bytes(10)}));
}

TEST(StackPlan, KeepsALongTransientBelowWhatEbbs) {
  // A gradient that is born at the peak and lives to the end would pin the top if it were placed
  // last.
  const std::vector<LiveRange> ranges = {
      {Bytes(100), 0, 6}, {Bytes(100), 1, 5}, {Bytes(100), 2, 4}, {Bytes(10), 3, 7}};
  const StackPlan plan = PlanStack(ranges, 8, Bytes(1));
  EXPECT_EQ(plan.extent[7], Bytes(10));
}

TEST(StackPlan, ReachesTheLivePeakOnTrainingSteps) {
  double mean = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Dice dice(seed);
    const StepRanges steps[] = {
        Chain(static_cast<int>(dice(10, 60)), dice, 1 << 20),
        Residual(static_cast<int>(dice(4, 20)), dice, 1 << 20),
        DenseConcat(static_cast<int>(dice(2, 4)), static_cast<int>(dice(4, 16)), dice, 1 << 18)};
    const char* names[] = {"chain", "residual", "dense"};
    for (int i = 0; i < 3; ++i) {
      const Quality quality = Measure(steps[i]);
      EXPECT_LE(quality.peak, 1.015) << names[i] << ", seed " << seed;
      EXPECT_LE(quality.mean, 1.08) << names[i] << ", seed " << seed;
      mean += quality.mean / 180;
    }
  }
  RecordProperty("mean_extent_over_live", std::to_string(mean));
  EXPECT_LE(mean, 1.03);
}

TEST(StackPlan, IsSoundAndDeterministicOnAnyInput) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Dice dice(seed);
    const StepRanges step =
        Arbitrary(static_cast<int>(dice(1, 40)), static_cast<int>(dice(0, 120)), dice, 4096);
    const StackPlan plan = PlanStack(step.ranges, step.num_steps, kAlignment);
    const absl::Status status = Verify(plan, step.ranges, kAlignment);
    ASSERT_TRUE(status.ok()) << status << ", seed " << seed;
    ASSERT_GE(plan.peak, LivePeak(step.ranges, kAlignment)) << "seed " << seed;
    const StackPlan again = PlanStack(step.ranges, step.num_steps, kAlignment);
    ASSERT_EQ(plan.offset, again.offset) << "seed " << seed;
    ASSERT_EQ(plan.strategy, again.strategy) << "seed " << seed;
  }
}

TEST(StackPlan, VerifySeesEveryKindOfDamage) {
  const std::vector<LiveRange> ranges = {{Bytes(512), 0, 2}, {Bytes(256), 1, 2}};
  const StackPlan good = PlanStack(ranges, 3, kAlignment);
  ASSERT_TRUE(Verify(good, ranges, kAlignment).ok());
  StackPlan plan = good;
  plan.offset[1] = plan.offset[0];
  EXPECT_FALSE(Verify(plan, ranges, kAlignment).ok());
  plan = good;
  plan.offset[1] += Bytes(1);
  EXPECT_FALSE(Verify(plan, ranges, kAlignment).ok());
  plan = good;
  plan.extent[0] += Bytes(256);
  EXPECT_FALSE(Verify(plan, ranges, kAlignment).ok());
  plan = good;
  plan.peak += Bytes(256);
  EXPECT_FALSE(Verify(plan, ranges, kAlignment).ok());
  plan = good;
  plan.offset.pop_back();
  EXPECT_FALSE(Verify(plan, ranges, kAlignment).ok());
}

}  // namespace
}  // namespace ebb::memory
