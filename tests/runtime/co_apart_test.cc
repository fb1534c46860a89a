#include "runtime/co_apart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "runtime/co_run.h"

namespace ebb::runtime {
namespace {

constexpr double kSolo = 10'000;  // of every sub-model

SubModelRef Part(int64_t job, int sub_model) { return {JobId(job), 0, sub_model}; }

LaunchSpan Met(const SubModelRef& part, std::initializer_list<LaunchSpan::Meeting> met,
               double alone) {
  LaunchSpan span{.job = part.job, .sub_model = part.sub_model};
  span.met.assign(met.begin(), met.end());
  span.alone = alone;
  return span;
}

// Sub-models 0 and 1 of two jobs. What each makes of its speed alone beside the other's:
constexpr double kRates[2][2] = {{0.485, 0.55}, {0.6, 0.485}};
bool Loses(int i, int j) { return 2 * kRates[i][j] < 1; }

// Launches that meet both of the other job's, for times drawn at random: which rate is whose shows
// in no single one.
class Learning {
 public:
  explicit Learning(double noise = 0) : noise_(noise) {}

  void Go(int launches) {
    for (int n = 0; n < launches; ++n) {
      for (const int64_t job : {1, 2}) {
        for (int i = 0; i < 2; ++i) Launch(job, i);
      }
    }
  }
  void Launch(int64_t job, int i) {
    const auto rate = [&](int other) { return job == 1 ? kRates[i][other] : kRates[other][i]; };
    const double first = 3'000 + 5'000 * part_(random_), second = 3'000 + 5'000 * part_(random_);
    const double made = first * rate(0) + second * rate(1);
    std::normal_distribution<double> noise(0, noise_);
    apart.Ended(Met(Part(job, i), {{Part(3 - job, 0), first}, {Part(3 - job, 1), second}},
                    kSolo - made + (noise_ > 0 ? kSolo * noise(random_) : 0)),
                kSolo);
  }
  // Without counting as meetings that were avoided.
  int Apart() const { return apart.Count(JobId(1), JobId(2)).second; }

  CoApart apart;

 private:
  double noise_;
  std::mt19937_64 random_{11};
  std::uniform_real_distribution<double> part_;
};

TEST(CoApart, TellsTheLosingPairsFromTheOthers) {
  Learning learning;
  learning.Go(200);
  EXPECT_EQ(learning.apart.Count(JobId(2), JobId(1)), std::pair(4, 2));
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      EXPECT_EQ(learning.apart.Wait(Part(1, i), Part(2, j)), Loses(i, j)) << i << j;
      EXPECT_EQ(learning.apart.Wait(Part(2, j), Part(1, i)), Loses(i, j)) << i << j;
    }
  }
  EXPECT_FALSE(learning.apart.Wait(Part(1, 0), Part(3, 0)));
}

// Together they make so much of their speed alone.
void Meet(CoApart& apart, double sum, int times = 4) {
  const double micros = kSolo / (sum / 2);
  for (int n = 0; n < times; ++n) {
    apart.Ended(Met(Part(1, 0), {{Part(2, 0), micros}}, 0), kSolo);
    apart.Ended(Met(Part(2, 0), {{Part(1, 0), micros}}, 0), kSolo);
  }
}

TEST(CoApart, OneMeetingIsNotEnough) {
  CoApart apart;
  Meet(apart, 0.97, 1);
  EXPECT_EQ(apart.Count(JobId(1), JobId(2)), std::pair(0, 0));
  Meet(apart, 0.97, 1);
  EXPECT_EQ(apart.Count(JobId(1), JobId(2)), std::pair(1, 0));
  Meet(apart, 0.97, 2);
  EXPECT_EQ(apart.Count(JobId(1), JobId(2)), std::pair(1, 1));
}

TEST(CoApart, OneLaunchOutOfTheOrdinaryDecidesNothing) {
  CoApart apart;
  for (int n = 0; n < 20; ++n) {
    const double solo = n % 5 == 3 ? 2'000 : kSolo;  // as if it had taken much longer
    apart.Ended(Met(Part(1, 0), {{Part(2, 0), 18'000}}, 0), solo);
    apart.Ended(Met(Part(2, 0), {{Part(1, 0), 18'000}}, 0), kSolo);
    EXPECT_FALSE(apart.any()) << n;
  }
}

TEST(CoApart, ShortMeetingsAndCrowdsTellNothing) {
  CoApart apart;
  for (int n = 0; n < 10; ++n) {
    apart.Ended(Met(Part(1, 0), {{Part(2, 0), 500}}, 9'900), kSolo);
    apart.Ended(Met(Part(2, 0), {{Part(1, 0), 500}}, 9'900), kSolo);
    LaunchSpan crowded = Met(Part(1, 1), {{Part(2, 1), 18'000}}, 2'000);
    crowded.crowded = 4'000;
    apart.Ended(crowded, kSolo);
    crowded = Met(Part(2, 1), {{Part(1, 1), 18'000}}, 2'000);
    crowded.crowded = 4'000;
    apart.Ended(crowded, kSolo);
  }
  EXPECT_EQ(apart.Count(JobId(1), JobId(2)), std::pair(0, 0));
}

int MeetingsAvoided(CoApart& apart) {
  int avoided = 0;
  while (apart.Wait(Part(1, 0), Part(2, 0))) ++avoided;
  return avoided;
}

TEST(CoApart, IsTriedAgainTwiceAsLateEveryTime) {
  CoApart apart;
  for (const int expected : {127, 255, 511}) {
    Meet(apart, 0.97);
    EXPECT_EQ(MeetingsAvoided(apart), expected);
    EXPECT_FALSE(apart.any());
  }
}

TEST(CoApart, APairThatHasLostMustWinToStayTogether) {
  for (const double sum : {0.995, 0.999}) {
    CoApart apart;
    Meet(apart, sum);
    EXPECT_FALSE(apart.any()) << sum;
    apart.Clear();
    Meet(apart, 0.97);
    MeetingsAvoided(apart);
    Meet(apart, sum);
    EXPECT_EQ(apart.any(), sum < 0.998) << sum;
  }
}

TEST(CoApart, WhatIsForgottenIsUnknown) {
  Learning learning;
  learning.Go(200);
  learning.apart.Forget(JobId(3));
  EXPECT_EQ(learning.Apart(), 2);
  learning.apart.Forget(JobId(2));
  EXPECT_EQ(learning.apart.Count(JobId(1), JobId(2)), std::pair(0, 0));
  EXPECT_FALSE(learning.apart.any());
}

TEST(CoApart, NoiseDecidesLittle) {
  Learning learning(0.01);
  learning.Go(200);
  for (int i = 0; i < 2; ++i) {
    for (int j = 0; j < 2; ++j) {
      EXPECT_EQ(learning.apart.Wait(Part(1, i), Part(2, j)), Loses(i, j)) << i << j;
    }
  }
}

// Two jobs whose steps are two sub-models of 10 ms, on streams 0 and 1. Together they lose.
class Controller {
 public:
  Controller() {
    run.Add(JobId(1), 2);
    run.Add(JobId(2), 2);
    run.TakeChanges();
    for (int step = 0; step < 3; ++step) {
      for (const int stream : {0, 1}) {
        for (const int part : {0, 1}) {
          Launch(stream, part);
          Complete(stream, now, now + Micros(10'000));
        }
      }
    }
    EXPECT_EQ(run.TakeChanges().size(), 1u);  // together
    for (int n = 0; n < 5; ++n) {
      for (const int part : {0, 1}) {
        const Micros begin = now;
        Launch(0, part);
        Launch(1, part);
        Complete(0, begin, begin + Micros(21'000));
        Complete(1, begin, begin + Micros(21'000));
      }
    }
  }
  void Launch(int stream, int part, bool copies_in = false, const LaunchWaits& waits = {}) {
    run.Launched(stream,
                 {.job = JobId(stream + 1),
                  .sub_model = part,
                  .last = part == 1,
                  .seq = memory::LaunchSeq(next++),
                  .copies_in = copies_in},
                 now, waits);
  }
  void Complete(int stream, Micros start, Micros end) {
    run.Completed(stream, start, end);
    now = std::max(now, end);
  }
  LaunchSeqs Before(int stream, int part) {
    return run.Before(stream, {JobId(stream + 1), 0, part});
  }

  CoRun run{CoRunMode::kAuto, 4};
  int64_t next = 0;
  Micros now;
};

TEST(CoRunBefore, ALaunchWaitsForTheNewestOutstandingOneThatItWouldHinder) {
  Controller controller;
  EXPECT_TRUE(controller.Before(1, 0).empty());
  controller.Launch(0, 0);
  controller.Launch(0, 1);  // never met the other's first
  EXPECT_EQ(controller.Before(1, 0), LaunchSeqs({memory::LaunchSeq(controller.next - 2)}));
  EXPECT_EQ(controller.Before(1, 1), LaunchSeqs({memory::LaunchSeq(controller.next - 1)}));
  EXPECT_TRUE(controller.Before(0, 0).empty());
  EXPECT_TRUE(controller.run.Before(2, {JobId(3), 0, 0}).empty());
}

TEST(CoRunBefore, NobodyWaitsForALaunchThatCopiesItsBatchIn) {
  Controller controller;
  controller.Launch(0, 0, true);
  controller.Launch(0, 1);
  EXPECT_TRUE(controller.Before(1, 0).empty());
  EXPECT_TRUE(controller.Before(1, 1).empty());
}

TEST(CoRunBefore, TheWaitIsNotTimeOfTheLaunchsOwn) {
  Controller controller;
  const auto solo = controller.run.SoloStep(JobId(2));
  const Micros begin = controller.now;
  for (int n = 0; n < 10; ++n) {
    const Micros at = controller.now;
    for (const int part : {0, 1}) controller.Launch(0, part);
    controller.Launch(1, 0, false, {.apart = {memory::LaunchSeq(controller.next - 1)}});
    controller.Launch(1, 1);
    controller.Complete(0, at, at + Micros(10'000));
    controller.Complete(0, at + Micros(10'000), at + Micros(20'000));
    controller.Complete(1, at + Micros(20'000), at + Micros(30'000));
    controller.Complete(1, at + Micros(30'000), at + Micros(40'000));
  }
  EXPECT_EQ(controller.now - begin, Micros(400'000));
  EXPECT_EQ(controller.run.SoloStep(JobId(2)), solo);
  EXPECT_EQ(controller.run.Waiting(JobId(1)), 0);
  EXPECT_GT(controller.run.Waiting(JobId(2)), 0.25);
  EXPECT_LT(controller.run.Waiting(JobId(2)), 0.5);
}

TEST(CoRunBefore, IsForgottenWhenAJobComes) {
  Controller controller;
  EXPECT_EQ(controller.run.PairsOf(JobId(1))[0].apart, 2);
  controller.run.Add(JobId(3), 2);
  EXPECT_EQ(controller.run.PairsOf(JobId(1))[0].apart, 0);
}

}  // namespace
}  // namespace ebb::runtime
