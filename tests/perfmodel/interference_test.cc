#include "perfmodel/interference.h"

#include <gtest/gtest.h>

#include <cmath>

#include "perfmodel/simulate.h"

namespace ebb::perfmodel {
namespace {

constexpr Resource kA = Resource::kCompute, kB = Resource::kCommunication;

TEST(Interference, WithoutRunsNothingSlowsAnything) {
  const auto fitted = FitInterference({});
  ASSERT_TRUE(fitted.ok());
  for (const auto& row : fitted->slowdown) {
    for (const double factor : row) EXPECT_EQ(factor, 1);
  }
}

TEST(Interference, EachPairIsTheMedianOfItsRuns) {
  const CoRun runs[] = {{kA, kB, 10, 12}, {kA, kB, 10, 13}, {kA, kB, 10, 90}, {kB, kA, 10, 9}};
  const auto fitted = FitInterference(runs);
  ASSERT_TRUE(fitted.ok());
  EXPECT_DOUBLE_EQ(fitted->of(kA, kB), 1.3);
  EXPECT_EQ(fitted->of(kB, kA), 1);  // faster beside another is noise
  EXPECT_EQ(fitted->of(kA, kA), 1);
}

TEST(Interference, WhatIsFittedToASimulationIsWhatItWasRunWith) {
  SimulateOptions options;
  options.interference.slowdown = {{{2, 1.6, 1}, {1.25, 1, 1}, {1, 1, 1}}};
  Task compute{.name = "gemm", .micros = 100, .after = {}};
  Task exchange{.name = "copy", .stream = 1, .resource = kB, .micros = 40, .after = {}};
  const std::vector<RankProgram> ranks = {{{compute, exchange}}};
  const auto step = Simulate(ranks, options);
  ASSERT_TRUE(step.ok());
  const double compute_us = step->ranks[0].tasks[0].end;
  const double exchange_us = step->ranks[0].tasks[1].end;
  const CoRun runs[] = {{kA, kB, 100, compute_us, exchange_us / compute_us},
                        {kB, kA, 40, exchange_us}};
  const auto fitted = FitInterference(runs);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_NEAR(fitted->of(kA, kB), 1.6, 1e-9);
  EXPECT_NEAR(fitted->of(kB, kA), 1.25, 1e-9);
}

TEST(Interference, WhatIsNoMeasurementIsRefused) {
  const double nan = std::nan("");
  for (const CoRun& run : {CoRun{kA, kB, 0, 5}, CoRun{kA, kB, 5, -1}, CoRun{kA, kB, nan, 5},
                           CoRun{kA, kB, 5, 5, 0}, CoRun{kA, kB, 5, 5, 1.5}}) {
    EXPECT_EQ(FitInterference({&run, 1}).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const CoRun stands{kA, kB, 1, 10, 0.5};
  EXPECT_EQ(FitInterference({&stands, 1})->of(kA, kB), kMostSlowdown);
}

}  // namespace
}  // namespace ebb::perfmodel
