#include "perfmodel/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>

namespace ebb::perfmodel {
namespace {

using ::testing::ElementsAre;

std::string Text(const std::vector<PipelineSlot>& order) {
  std::string text;
  for (const PipelineSlot& slot : order) {
    text += slot.backward ? "B" : "F";
    text += std::to_string(slot.micro);
    if (slot.chunk > 0) text += std::string(static_cast<size_t>(slot.chunk), '\'');
  }
  return text;
}

TEST(PipelineOrder, IsAsItsPapersDrawIt) {
  EXPECT_EQ(Text(PipelineOrder(Schedule::kGPipe, 1, 4, 3, 1)), "F0F1F2B0B1B2");
  EXPECT_EQ(Text(PipelineOrder(Schedule::kOneForwardOneBackward, 0, 3, 4, 1)), "F0F1F2B0F3B1B2B3");
  EXPECT_EQ(Text(PipelineOrder(Schedule::kOneForwardOneBackward, 2, 3, 4, 1)), "F0B0F1B1F2B2F3B3");
  EXPECT_EQ(Text(PipelineOrder(Schedule::kInterleaved, 1, 2, 2, 2)), "F0F1F0'B0'F1'B1'B0B1");
}

TEST(PipelineOrder, DoesEachMicroBatchOnceForwardThenBackward) {
  for (const Schedule schedule :
       {Schedule::kGPipe, Schedule::kOneForwardOneBackward, Schedule::kInterleaved}) {
    const int64_t chunks = schedule == Schedule::kInterleaved ? 3 : 1;
    for (int64_t rank = 0; rank < 4; ++rank) {
      std::set<std::pair<int64_t, int64_t>> open, done;
      for (const PipelineSlot& slot : PipelineOrder(schedule, rank, 4, 8, chunks)) {
        const std::pair<int64_t, int64_t> key(slot.micro, slot.chunk);
        if (slot.backward) {
          EXPECT_EQ(open.erase(key), 1u);
          EXPECT_TRUE(done.insert(key).second);
        } else {
          EXPECT_TRUE(open.insert(key).second);
        }
      }
      EXPECT_TRUE(open.empty());
      EXPECT_EQ(done.size(), static_cast<size_t>(8 * chunks));
    }
  }
}

TEST(PipelineOrder, KeepsFewerMicroBatchesAliveWithOneForwardOneBackward) {
  EXPECT_EQ(MostInFlight(PipelineOrder(Schedule::kGPipe, 0, 4, 8, 1)), 8);
  EXPECT_EQ(MostInFlight(PipelineOrder(Schedule::kOneForwardOneBackward, 0, 4, 8, 1)), 4);
  EXPECT_EQ(MostInFlight(PipelineOrder(Schedule::kOneForwardOneBackward, 3, 4, 8, 1)), 1);
}

TEST(BalancedCuts, MakesTheLongestGroupShortAndCutsWhereLittleCrosses) {
  EXPECT_THAT(BalancedCuts({1, 1, 1, 1}, {0, 5, 5, 5}, 2), ElementsAre(0, 2));
  EXPECT_THAT(BalancedCuts({4, 1, 1, 1, 1}, {0, 5, 5, 5, 5}, 2), ElementsAre(0, 1));
  // A unit that takes nothing goes where fewer bytes cross.
  EXPECT_THAT(BalancedCuts({2, 0, 2}, {0, 9, 3}, 2), ElementsAre(0, 2));
  EXPECT_THAT(BalancedCuts({2, 0, 2}, {0, 3, 9}, 2), ElementsAre(0, 1));
  EXPECT_THAT(BalancedCuts({3, 3, 3}, {0, 1, 1}, 3), ElementsAre(0, 1, 2));
}

// Against all ways to cut.
TEST(BalancedCuts, IsWithinOneInAHundredOfTheBest) {
  uint64_t seed = 7;
  for (int round = 0; round < 200; ++round) {
    std::vector<double> micros, crossing;
    for (int i = 0; i < 9; ++i) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      micros.push_back(static_cast<double>(seed >> 60));
      crossing.push_back(1);
    }
    const auto longest = [&](const std::vector<int>& firsts) {
      double most = 0;
      for (size_t g = 0; g < firsts.size(); ++g) {
        const int end = g + 1 < firsts.size() ? firsts[g + 1] : 9;
        most =
            std::max(most, std::accumulate(micros.begin() + firsts[g], micros.begin() + end, 0.0));
      }
      return most;
    };
    double best = 1e9;
    for (int a = 1; a < 8; ++a) {
      for (int b = a + 1; b < 9; ++b) best = std::min(best, longest({0, a, b}));
    }
    EXPECT_LE(longest(BalancedCuts(micros, crossing, 3)), 1.01 * best) << round;
  }
}

TEST(InterleavedCuts, LeaveARankWithAHeavyStageLittleElse) {
  std::vector<double> micros(40, 1);
  micros.push_back(20);  // a head: 60 in all, 15 a rank at best, 20 with the head's
  const std::vector<double> crossing(micros.size(), 9);
  const auto most_of_a_rank = [&](const std::vector<int>& firsts) {
    std::array<double, 4> sums = {};
    for (size_t unit = 0, g = 0; unit < micros.size(); ++unit) {
      while (g + 1 < firsts.size() && firsts[g + 1] <= static_cast<int>(unit)) ++g;
      sums[g % 4] += micros[unit];
    }
    return *std::max_element(sums.begin(), sums.end());
  };
  EXPECT_LE(most_of_a_rank(InterleavedCuts(micros, crossing, 4, 2)),
            most_of_a_rank(BalancedCuts(micros, crossing, 8)));
  EXPECT_LE(most_of_a_rank(InterleavedCuts(micros, crossing, 4, 2)), 22);
  EXPECT_EQ(InterleavedCuts(micros, crossing, 4, 1), BalancedCuts(micros, crossing, 4));
  const auto firsts = InterleavedCuts({1, 1, 1, 1}, {0, 0, 0, 0}, 2, 2);
  EXPECT_THAT(firsts, ElementsAre(0, 1, 2, 3));
}

}  // namespace
}  // namespace ebb::perfmodel
