#include "perfmodel/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

namespace ebb::perfmodel {
namespace {

Task Kernel(double micros, double host_us = 0, int stream = 0) {
  return {.name = "kernel", .stream = stream, .host_us = host_us, .micros = micros};
}

Task Exchange(int number, double micros, std::vector<int> after = {}, int stream = 1) {
  return {.name = "exchange " + std::to_string(number),
          .stream = stream,
          .resource = Resource::kCommunication,
          .micros = micros,
          .after = std::move(after),
          .collective = number};
}

Task HostWaits(std::vector<int> after) {
  return {.name = "wait", .after = std::move(after), .host_waits = true};
}

Step StepOf(const std::vector<RankProgram>& ranks, const SimulateOptions& options = {}) {
  const auto step = Simulate(ranks, options);
  EXPECT_TRUE(step.ok()) << step.status();
  return step.ok() ? *step : Step{};
}

absl::Status Refusal(const std::vector<RankProgram>& ranks, const SimulateOptions& options = {}) {
  return Simulate(ranks, options).status();
}

TEST(Simulate, AHostAheadHidesItsTimeAndOneBehindIsTheStep) {
  const Step device_bound = StepOf({{{Kernel(10, 1), Kernel(10, 1), Kernel(10, 1)}}});
  EXPECT_DOUBLE_EQ(device_bound.micros, 31);
  EXPECT_DOUBLE_EQ(device_bound.parts.compute, 30);
  EXPECT_DOUBLE_EQ(device_bound.parts.host, 1);
  const Step host_bound = StepOf({{{Kernel(1, 10), Kernel(1, 10), Kernel(1, 10)}}});
  EXPECT_DOUBLE_EQ(host_bound.micros, 31);
  EXPECT_DOUBLE_EQ(host_bound.ranks[0].host_end, 30);
  EXPECT_DOUBLE_EQ(host_bound.parts.host, 28);
}

TEST(Simulate, StreamsRunAtOnceExceptWhereOneWaitsForTheOther) {
  Task later = Kernel(5, 0, 1);
  EXPECT_DOUBLE_EQ(StepOf({{{Kernel(10), later}}}).micros, 10);
  later.after = {0};
  const Step step = StepOf({{{Kernel(10), later}}});
  EXPECT_DOUBLE_EQ(step.micros, 15);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[1].start, 10);
}

TEST(Simulate, TheHostGoesOnWhenWhatItWaitsForHasEnded) {
  const Step step = StepOf({{{Kernel(10), HostWaits({0}), Kernel(1, 2)}}});
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[1].start, 0);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[1].end, 10);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[2].launched, 12);
  EXPECT_DOUBLE_EQ(step.micros, 13);
  EXPECT_DOUBLE_EQ(StepOf({{{Kernel(10), HostWaits({0})}}}).ranks[0].host_end, 10);
}

TEST(Simulate, ACollectiveBeginsWithItsLastRankAndEndsOnAllAtOnce) {
  const Step step =
      StepOf({{{Kernel(10), Exchange(0, 5, {0})}}, {{Kernel(30), Exchange(0, 5, {0})}}});
  EXPECT_DOUBLE_EQ(step.micros, 35);
  for (const RankStep& rank : step.ranks) EXPECT_DOUBLE_EQ(rank.tasks[1].end, 35);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[1].start, 10);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[1].wait, 20);
  EXPECT_DOUBLE_EQ(step.ranks[1].tasks[1].wait, 0);
  EXPECT_DOUBLE_EQ(step.ranks[0].parts.waiting, 20);
  EXPECT_DOUBLE_EQ(step.ranks[0].parts.exposed_communication, 5);
  EXPECT_DOUBLE_EQ(step.ranks[1].parts.waiting, 0);
}

TEST(Simulate, CollectivesOfTwoGroupsRunAtOnceAndHideBehindCompute) {
  const Step step = StepOf({{{Exchange(0, 20), Exchange(1, 10, {}, 2), Kernel(25)}},
                            {{Exchange(0, 20), Kernel(25)}},
                            {{Exchange(1, 10), Kernel(25)}}});
  EXPECT_DOUBLE_EQ(step.micros, 25);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[0].end, 20);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[1].end, 10);
  EXPECT_DOUBLE_EQ(step.parts.exposed_communication, 0);
}

TEST(Simulate, RatesOfTasksAtOnceFollowTheirResourcesWhileTheyOverlap) {
  SimulateOptions options;
  options.interference.slowdown[0][1] = 2;    // compute beside communication
  options.interference.slowdown[1][0] = 1.5;  // communication beside compute
  const Step step = StepOf({{{Kernel(20), Exchange(0, 8)}}, {{Exchange(0, 8)}}}, options);
  // 12 us at 1/1.5 for the exchange, in which the kernel does 6 of its 20.
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[1].end, 12);
  EXPECT_DOUBLE_EQ(step.ranks[1].tasks[0].end, 12);
  EXPECT_DOUBLE_EQ(step.ranks[0].tasks[0].end, 26);
}

TEST(Simulate, ASlowdownOfTwoSharesFairlyBetweenAnyNumber) {
  SimulateOptions options;
  options.interference.slowdown[0][0] = 2;
  const Step step = StepOf({{{Kernel(10), Kernel(10, 0, 1), Kernel(10, 0, 2)}}}, options);
  EXPECT_DOUBLE_EQ(step.micros, 30);
}

TEST(Simulate, AStragglerDelaysTheOthersInTheirCollectives) {
  const std::vector<RankProgram> ranks(4, {{Kernel(10, 2), Exchange(0, 5, {0})}});
  const Step step = StepOf(ranks, {.straggler = {1, 1, 1.5, 1}});
  EXPECT_DOUBLE_EQ(step.micros, 23);
  EXPECT_DOUBLE_EQ(step.ranks[0].parts.waiting, 6);
  EXPECT_DOUBLE_EQ(step.ranks[2].parts.waiting, 0);
}

TEST(Simulate, DeadLocksNameRankAndTask) {
  const absl::Status orders =
      Refusal({{{Exchange(0, 1), Exchange(1, 1)}}, {{Exchange(1, 1), Exchange(0, 1)}}});
  EXPECT_EQ(orders.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(orders.message().substr(0, 31), "rank 0, task 0 (exchange 0) wai");
  EXPECT_NE(orders.message().find("rank 1, task 1 (exchange 0)"), absl::string_view::npos)
      << orders;
  const absl::Status host = Refusal({{{Exchange(0, 1), HostWaits({0}), Exchange(1, 1)}},
                                     {{Exchange(1, 1), HostWaits({0}), Exchange(0, 1)}}});
  EXPECT_EQ(host.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(host.message().find("rank 1, task 2 (exchange 0)"), absl::string_view::npos) << host;
}

TEST(Simulate, WhatIsNoProgramIsRefusedWithItsPlace) {
  const auto expect = [](const absl::Status& status, absl::string_view part) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(part), absl::string_view::npos) << status;
  };
  expect(Refusal({{{Kernel(1)}}, {{Kernel(-1)}}}), "rank 1, task 0 (kernel)");
  expect(Refusal({{{Kernel(std::numeric_limits<double>::quiet_NaN())}}}), "times must be");
  expect(Refusal({{{Kernel(1), Exchange(0, 1, {1})}}}), "rank 0, task 1 (exchange 0)");
  expect(Refusal({{{Exchange(3, 1), Exchange(3, 1)}}}), "collective 3");
  expect(Refusal({{{Kernel(1)}}}, {.straggler = {1, 1}}), "2 factors");
  SimulateOptions faster;
  faster.interference.slowdown[1][1] = 0.5;
  expect(Refusal({{{Kernel(1)}}}, faster), "slowdown");
}

TEST(Simulate, NoRanksAndNoTasksTakeNoTime) {
  EXPECT_EQ(StepOf({}).micros, 0);
  const Step step = StepOf({{}, {{Kernel(4)}}});
  EXPECT_DOUBLE_EQ(step.micros, 4);
  EXPECT_DOUBLE_EQ(step.ranks[0].parts.waiting, 4);
}

// Ranks with kernels, copies and collectives on several streams, all in one order of collectives.
std::vector<RankProgram> Random(unsigned seed, int count) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> time(0, 50), kind(0, 9), other(0, 3);
  std::vector<RankProgram> ranks(count);
  for (int index = 0; index < 60; ++index) {
    const int what = kind(random);
    for (RankProgram& rank : ranks) {
      Task task = Kernel(time(random), time(random) / 5, what % 3 == 0 ? 2 : 0);
      if (what < 3) {
        task = Exchange(index, 7 * what + 3, {}, what % 2 == 0 ? 1 : 3);
      } else if (what == 3) {
        task.resource = Resource::kCopy;
      }
      const int size = static_cast<int>(rank.tasks.size());
      if (size > 4) task.after = {size - 1 - other(random)};
      if (what == 4) task = HostWaits({size - 1});
      if (what == 4 && size == 0) continue;
      rank.tasks.push_back(std::move(task));
    }
  }
  return ranks;
}

SimulateOptions Shared() {
  SimulateOptions options;
  options.interference.slowdown = {{{2, 1.3, 1.1}, {1.2, 2, 1.4}, {1.1, 1.5, 2}}};
  options.straggler = {1, 1.2, 0.9, 1, 1.1};
  return options;
}

TEST(Simulate, PartsSumToTheStepOnEveryRank) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    const Step step = StepOf(Random(seed, 5), Shared());
    for (const RankStep& rank : step.ranks) {
      EXPECT_NEAR(rank.parts.sum(), step.micros, 1e-6) << "seed " << seed;
    }
    EXPECT_NEAR(step.parts.sum(), step.micros, 1e-6) << "seed " << seed;
  }
}

TEST(Simulate, TheOrderOfTheRanksChangesNothing) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::vector<RankProgram> ranks = Random(seed, 5);
    SimulateOptions options = Shared();
    const Step step = StepOf(ranks, options);
    std::reverse(ranks.begin(), ranks.end());
    std::reverse(options.straggler.begin(), options.straggler.end());
    const Step turned = StepOf(ranks, options);
    EXPECT_NEAR(step.micros, turned.micros, 1e-6) << "seed " << seed;
    for (size_t rank = 0; rank < 5; ++rank) {
      const RankStep& one = step.ranks[rank];
      const RankStep& same = turned.ranks[4 - rank];
      ASSERT_EQ(one.tasks.size(), same.tasks.size());
      for (size_t task = 0; task < one.tasks.size(); ++task) {
        EXPECT_NEAR(one.tasks[task].end, same.tasks[task].end, 1e-6) << "seed " << seed;
      }
    }
  }
}

TEST(Simulate, EqualProgramsGiveEqualSteps) {
  const Step one = StepOf(Random(3, 5), Shared()), two = StepOf(Random(3, 5), Shared());
  EXPECT_EQ(one.micros, two.micros);
  EXPECT_EQ(one.parts.compute, two.parts.compute);
}

TEST(Simulate, OrderHoldsWithinStreamsAndAfterWhatTasksWaitFor) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    const std::vector<RankProgram> ranks = Random(seed, 5);
    const Step step = StepOf(ranks, Shared());
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const auto& tasks = ranks[rank].tasks;
      const auto& times = step.ranks[rank].tasks;
      for (size_t task = 0; task < tasks.size(); ++task) {
        EXPECT_GE(times[task].start, times[task].launched);
        EXPECT_GE(times[task].end, times[task].start + times[task].wait);
        for (const int earlier : tasks[task].after) {
          EXPECT_GE(times[task].end, times[earlier].end);
        }
      }
    }
  }
}

TEST(Simulate, LongerKernelsNeverMakeAShorterStepWithoutInterference) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    std::vector<RankProgram> ranks = Random(seed, 5);
    const double before = StepOf(ranks).micros;
    ranks[seed % 5].tasks[20].micros += 40;
    EXPECT_GE(StepOf(ranks).micros, before) << "seed " << seed;
  }
}

TEST(Simulate, ManyTasksTakeLittleTime) {
  std::vector<RankProgram> ranks(8);
  for (int index = 0; index < 20000; ++index) {
    for (RankProgram& rank : ranks) {
      rank.tasks.push_back(index % 10 == 9 ? Exchange(index, 5, {index - 1}) : Kernel(3, 1));
    }
  }
  EXPECT_DOUBLE_EQ(StepOf(ranks).parts.sum(), StepOf(ranks).micros);
}

}  // namespace
}  // namespace ebb::perfmodel
