#include "bench/progress.h"

#include <gtest/gtest.h>

#include "bench/sharing.h"

namespace ebb::bench {
namespace {

// Two steps of two sub-models: [0, 10), [10, 40), a pause, [50, 60), [60, 90).
std::vector<runtime::LaunchReport> TwoSteps() {
  std::vector<runtime::LaunchReport> launches;
  for (const int begin : {0, 50}) {
    launches.push_back({.sub_model = 0,
                        .start = Micros(begin),
                        .end = Micros(begin + 10),
                        .extent = Bytes(100),
                        .held_after = Bytes(60),
                        .region = Bytes(7)});
    launches.push_back({.sub_model = 1,
                        .last = true,
                        .start = Micros(begin + 10),
                        .end = Micros(begin + 40),
                        .extent = Bytes(80),
                        .region = Bytes(7)});
  }
  return launches;
}

TEST(StepsWithin, CountsPartsByTimeOfExecution) {
  const auto launches = TwoSteps();
  const auto within = [&](int64_t begin, int64_t end) {
    return StepsWithin(launches, {Micros(begin), Micros(end)});
  };
  EXPECT_DOUBLE_EQ(within(0, 90), 2);
  EXPECT_DOUBLE_EQ(within(0, 50), 1);
  EXPECT_DOUBLE_EQ(within(40, 50), 0);
  EXPECT_DOUBLE_EQ(within(0, 10), 0.25);
  EXPECT_DOUBLE_EQ(within(25, 75), 0.375 + 0.625);
}

TEST(StepsWithin, AStepWithoutEndIsMeasuredByTheOneBefore) {
  auto launches = TwoSteps();
  launches.pop_back();
  EXPECT_DOUBLE_EQ(StepsWithin(launches, {Micros(0), Micros(100)}), 1.25);
  launches.resize(1);  // nothing to measure it by
  EXPECT_DOUBLE_EQ(StepsWithin(launches, {Micros(0), Micros(100)}), 0);
}

TEST(StepEnds, AreThoseOfTheLastSubModels) {
  EXPECT_EQ(StepEnds(TwoSteps()), (std::vector<Micros>{Micros(40), Micros(90)}));
}

TEST(MeanBytesHeld, CountsRegionsExtentsAndWhatIsHeldBetween) {
  auto launches = TwoSteps();
  const Window window{Micros(0), Micros(100)};
  // Extents: 2 x (10 x 100 + 30 x 80), the region all of the time.
  EXPECT_DOUBLE_EQ(MeanBytesHeld({launches}, window), 7 + 68);
  // Its second launch waits for 20 with 60 bytes held.
  launches[2].start = Micros(41);
  launches[2].end = Micros(45);
  EXPECT_DOUBLE_EQ(MeanBytesHeld({launches}, window),
                   7 + (10 * 100 + 4 * 100 + 15 * 60 + 60 * 80) / 100.0);
  EXPECT_DOUBLE_EQ(MeanBytesHeld({TwoSteps(), TwoSteps()}, window), 2 * 75);
}

TEST(DrawMixes, AllPairsTwentyOfMoreJobsAndTheSameOnesForASeed) {
  SharingOptions options;
  EXPECT_EQ(DrawMixes(options).size(), 28);
  options.jobs = 4;
  auto mixes = DrawMixes(options);
  EXPECT_EQ(mixes, DrawMixes(options));
  EXPECT_EQ(mixes.size(), 20);
  options.seed = 2;
  EXPECT_NE(mixes, DrawMixes(options));
  std::sort(mixes.begin(), mixes.end());
  EXPECT_EQ(std::unique(mixes.begin(), mixes.end()), mixes.end());
  for (const auto& mix : mixes) {
    ASSERT_EQ(mix.size(), 4);
    EXPECT_TRUE(std::adjacent_find(mix.begin(), mix.end()) == mix.end());
  }
  options.mixes = Mixes::kEqual;
  options.models = {"vgg16", "gpt2"};
  EXPECT_EQ(DrawMixes(options)[1], std::vector<std::string>(4, "gpt2"));
  options.mixes = Mixes::kDistinct;
  EXPECT_TRUE(DrawMixes(options).empty());
}

}  // namespace
}  // namespace ebb::bench
