#include "perfmodel/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "perfmodel/fabric.h"

namespace ebb::perfmodel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ShardTest : public ::testing::Test {
 protected:
  // Tables of all sizes and skews, the same for a seed.
  static ShardTask Draw(unsigned seed, size_t most_tables, int ranks) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<double> draw(0, 1);
    ShardTask task{.ranks = ranks, .batch = 4096};
    const size_t tables = 2 + random() % (most_tables - 1);
    for (size_t i = 0; i < tables; ++i) {
      const auto rows = static_cast<int64_t>(std::exp2(10 + 13 * draw(random)));
      task.tables.push_back({.name = absl::StrCat("t", i),
                             .rows = rows,
                             .width = 16 << (random() % 4),
                             .pooling = 1 + std::floor(30 * draw(random) * draw(random)),
                             .popularity = ZipfPopularity(rows, 1.2 * draw(random))});
    }
    return task;
  }

  const LookUpModel look_ups_ = LookUpModel::APriori(*FindHardware("v100-16gb"));
  const Fabric fabric_ = *FindFabric(KnownFabrics()[0].name);
};

// Simulated: the judge of all plans is the model itself.
TEST_F(ShardTest, TheSearchFindsPlansNearTheBestOfAll) {
  int near = 0;
  for (unsigned seed = 1; seed <= 100; ++seed) {
    ShardTask task = Draw(seed, 8, 4);
    task.allowed = {Sharding::kTableWise};
    const auto plan = PlanShards(task, look_ups_, fabric_);
    const auto best = BestTableWise(task, look_ups_, fabric_);
    ASSERT_TRUE(plan.ok() && best.ok()) << plan.status() << best.status();
    EXPECT_GE(plan->cost.step(), best->cost.step() * (1 - 1e-6)) << "seed " << seed;
    if (plan->cost.step() <= best->cost.step() * 1.1) ++near;
  }
  EXPECT_GE(near, 85);
}

TEST_F(ShardTest, CuttingTablesIsNeverWorseThanNotCutting) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    ShardTask task = Draw(seed, 6, 4);
    const auto any = PlanShards(task, look_ups_, fabric_);
    task.allowed = {Sharding::kTableWise};
    const auto whole = PlanShards(task, look_ups_, fabric_);
    ASSERT_TRUE(any.ok() && whole.ok());
    EXPECT_LE(any->cost.step(), whole->cost.step() * 1.02) << "seed " << seed;
  }
}

TEST_F(ShardTest, AHugeTableIsCut) {
  ShardTask task{.tables = {{.name = "huge", .rows = 50'000'000, .width = 128, .pooling = 20}},
                 .ranks = 8,
                 .batch = 8192,
                 .memory_bytes = 16e9};
  const auto plan = PlanShards(task, look_ups_, fabric_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_NE(plan->placements[0].sharding, Sharding::kTableWise);
  EXPECT_TRUE(plan->cost.fits);
  task.memory_bytes = 1e9;
  EXPECT_THAT(PlanShards(task, look_ups_, fabric_).status().message(),
              AllOf(HasSubstr("do not fit"), HasSubstr("more ranks")));
}

TEST_F(ShardTest, OneRankExchangesNothing) {
  const ShardTask task = Draw(1, 5, 1);
  const auto plan = PlanShards(task, look_ups_, fabric_);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->cost.exchange, 0);
  EXPECT_EQ(plan->cost.imbalance(), 1);
}

TEST_F(ShardTest, OrderOfTablesAndRanksDoesNotMatter) {
  const ShardTask task = Draw(3, 8, 4);
  const auto plan = PlanShards(task, look_ups_, fabric_);
  ASSERT_TRUE(plan.ok());
  ShardTask turned = task;
  std::reverse(turned.tables.begin(), turned.tables.end());
  std::vector<Placement> placements(plan->placements.rbegin(), plan->placements.rend());
  for (Placement& placement : placements) {
    for (int& rank : placement.ranks) rank = (rank + 1) % 4;
  }
  const auto cost = CostOf(turned, placements, look_ups_, fabric_);
  ASSERT_TRUE(cost.ok()) << cost.status();
  EXPECT_NEAR(cost->step(), plan->cost.step(), 1e-9 * cost->step());
  const auto again = PlanShards(task, look_ups_, fabric_);
  EXPECT_EQ(again->placements, plan->placements);
}

TEST_F(ShardTest, RefusesWhatCannotBe) {
  ShardTask task = Draw(1, 4, 4);
  std::vector<Placement> placements(task.tables.size(), {Sharding::kTableWise, {0}});
  placements[1].ranks = {9};
  EXPECT_THAT(CostOf(task, placements, look_ups_, fabric_).status().message(),
              AllOf(HasSubstr("'t1'"), HasSubstr("rank 9")));
  placements.pop_back();
  EXPECT_FALSE(CostOf(task, placements, look_ups_, fabric_).ok());
  task.tables[0].pooling = 0;
  EXPECT_THAT(PlanShards(task, look_ups_, fabric_).status().message(), HasSubstr("'t0'"));
  EXPECT_FALSE(PlanShards({.ranks = 4, .batch = 1}, look_ups_, fabric_).ok());
  task = Draw(1, 4, 0);
  EXPECT_FALSE(PlanShards(task, look_ups_, fabric_).ok());
  EXPECT_FALSE(BestTableWise(Draw(1, 8, 4096), look_ups_, fabric_).ok());
}

}  // namespace
}  // namespace ebb::perfmodel
