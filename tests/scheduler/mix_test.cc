// The property: over random mixes nothing dead-locks, overlaps, leaks or starves; and the test can
// tell, since every broken rule is found out over the same mixes.
#include "tests/scheduler/mix.h"

#include <gtest/gtest.h>

namespace ebb::scheduler {
namespace {

constexpr uint64_t kMixes = 1000;

TEST(Mix, NothingDeadlocksOverlapsLeaksOrStarves) {
  MixResult sum;
  int64_t free_launches = 0, free_together = 0;
  for (uint64_t seed = 1; seed <= kMixes; ++seed) {
    const MixResult mix = RunMix(seed, SchedulerRules());
    ASSERT_EQ(mix.failure, "") << "seed " << seed;
    sum.launches += mix.launches;
    sum.waits += mix.waits;
    sum.dropped += mix.dropped;
    sum.together += mix.together;
    if (mix.turns == 0) free_launches += mix.launches;
    if (mix.turns == 0) free_together += mix.together;
    sum.turns += mix.turns;
    sum.most_overtaken = std::max(sum.most_overtaken, mix.most_overtaken);
  }
  RecordProperty("launches", std::to_string(sum.launches));
  RecordProperty("waits", std::to_string(sum.waits));
  RecordProperty("together", std::to_string(sum.together));
  RecordProperty("turns", std::to_string(sum.turns));
  RecordProperty("most_overtaken", std::to_string(sum.most_overtaken));
  // The mixes must put the rule to the test.
  EXPECT_GT(sum.launches, 100'000);
  EXPECT_GT(sum.waits, sum.launches / 100);
  EXPECT_GT(free_together, free_launches / 4);  // where nobody takes turns
  EXPECT_GT(sum.dropped, 100);
  EXPECT_GT(sum.turns, 5'000);
}

struct Mutant {
  const char* name;
  SchedulerRules rules;
};

class Mutants : public testing::TestWithParam<Mutant> {};

TEST_P(Mutants, IsCaught) {
  int caught = 0;
  std::string first;
  for (uint64_t seed = 1; seed <= kMixes; ++seed) {
    const MixResult mix = RunMix(seed, GetParam().rules);
    if (mix.failure.empty()) continue;
    if (++caught == 1) first = "seed " + std::to_string(seed) + ": " + mix.failure;
  }
  RecordProperty("caught", caught);
  RecordProperty("first", first);
  EXPECT_GT(caught, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Rules, Mutants,
    testing::Values(Mutant{"NoTest", {.test = SchedulerRules::Test::kNone}},
                    Mutant{"HeldAfterInsteadOfExtent", {.test = SchedulerRules::Test::kHeldAfter}},
                    Mutant{"OnlyTheTopEndWaits", {.waits = SchedulerRules::Waits::kTopEndOnly}},
                    Mutant{"IgnoresDepartedSteps",
                           {.waits = SchedulerRules::Waits::kStepsInFlight}},
                    Mutant{"WaitsForALaunchToCome", {.waits = SchedulerRules::Waits::kNextLaunch}},
                    Mutant{"IgnoresTurns", {.turns = SchedulerRules::Turns::kIgnored}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ebb::scheduler
