// Others' ways to share, on jobs made up for each case.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <random>

#include "bench/baselines/paging.h"
#include "bench/baselines/policies.h"
#include "bench/baselines/stream_pool.h"
#include "bench/progress.h"

namespace ebb::bench {
namespace {

using device::OverlapModel;
using device::SimProfile;
using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::Ge;

constexpr Bytes kMemory(1000);

SimProfile Profile() { return *device::LoadSimProfile("v100-16gb"); }

struct Part {
  int64_t needed, held;
  double micros = 1000;
  double slots = 1;
};
// One kernel a part; the first half goes forward.
Workload Job(const std::vector<Part>& parts) {
  Workload work{.model = "made up", .batch = 1};
  for (size_t p = 0; p < parts.size(); ++p) {
    const auto [needed, held, micros, slots] = parts[p];
    const int kernel = static_cast<int>(p);
    work.kernels.push_back({.micros = micros, .slots = slots, .flops = slots / 2});
    work.sub_models.push_back({.first = kernel,
                               .last = kernel,
                               .forward = p < parts.size() / 2,
                               .needed = Bytes(needed),
                               .held = Bytes(held)});
  }
  Complete(Profile(), &work);
  for (const SubModelWork& sub : work.sub_models) work.alone_micros += sub.micros;
  return work;
}
// Rises to `peak` and falls again, so that two of them can dead-lock half-way.
Workload Hill(int64_t peak, int parts, double micros = 1000) {
  std::vector<Part> all;
  for (int p = 1; p <= parts; ++p) all.push_back({peak * p / parts, peak * p / parts, micros});
  for (int p = parts - 1; p >= 0; --p) {
    all.push_back({peak * (p + 1) / parts, peak * p / parts, micros});
  }
  return Job(all);
}

// Rises and falls at random.
Workload RandomJob(std::mt19937_64& random, int64_t most) {
  std::vector<Part> parts;
  int64_t held = 0;
  const int count = 2 + static_cast<int>(random() % 12);
  for (int p = 0; p < count; ++p) {
    const int64_t needed = held + static_cast<int64_t>(random() % (most - held + 1));
    held = p + 1 == count ? 0 : static_cast<int64_t>(random() % (needed + 1));
    parts.push_back({needed, held, 100.0 + static_cast<double>(random() % 1000),
                     0.2 + static_cast<double>(random() % 8) / 10});
  }
  return Job(parts);
}

struct Outcome {
  std::vector<double> progress;
  std::vector<std::vector<runtime::LaunchReport>> launches;
  int64_t drops = 0;
  double Sum() const {
    double sum = 0;
    for (const double part : progress) sum += part;
    return sum;
  }
};
Outcome Share(SharingPolicy& policy, const std::vector<Workload>& jobs, double horizon,
              OverlapModel overlap = OverlapModel::kSlots) {
  std::vector<const Workload*> works;
  for (const Workload& job : jobs) works.push_back(&job);
  Simulation sim(Profile(), overlap, works, kMemory);
  sim.Run(policy, horizon);
  Outcome outcome{.launches = sim.launches(), .drops = sim.drops()};
  const Window window{device::Timeline::Stamp(horizon / 10), device::Timeline::Stamp(horizon)};
  for (size_t j = 0; j < jobs.size(); ++j) {
    outcome.progress.push_back(StepsWithin(sim.launches()[j], window) * jobs[j].alone_micros /
                               static_cast<double>(window.length().count()));
  }
  return outcome;
}

// The most bytes held at any instant: extents while launches execute, what is held in between.
Bytes MostHeld(const Outcome& outcome) {
  std::map<Micros, Bytes> change;
  for (const auto& launches : outcome.launches) {
    for (size_t l = 0; l < launches.size(); ++l) {
      change[launches[l].start] += launches[l].extent;
      change[launches[l].end] -= launches[l].extent;
      if (l + 1 == launches.size()) continue;
      change[launches[l].end] += launches[l].held_after;
      change[launches[l + 1].start] -= launches[l].held_after;
    }
  }
  Bytes held, most;
  for (const auto& [time, bytes] : change) {
    held += bytes;
    most = std::max(most, held);
  }
  return most;
}

bool AnyTwoOverlap(const Outcome& outcome) {
  for (const auto& a : outcome.launches[0]) {
    for (const auto& b : outcome.launches[1]) {
      if (a.start < b.end && b.start < a.end) return true;
    }
  }
  return false;
}

TEST(TimeSharing, TakesTurnsAndLosesNothingButTheSwitch) {
  TimeSharing policy(0);
  const Outcome outcome = Share(policy, {Hill(600, 4), Hill(900, 6)}, 1e6);
  EXPECT_THAT(outcome.Sum(), DoubleNear(1, 0.005));
  EXPECT_FALSE(AnyTwoOverlap(outcome));
  EXPECT_LE(MostHeld(outcome), Bytes(900));
}

TEST(TimeSharing, IsFairBetweenLongAndShortSteps) {
  TimeSharing policy(0);
  const Outcome outcome = Share(policy, {Hill(900, 8, 4000), Hill(500, 2, 500)}, 3e6);
  EXPECT_THAT(outcome.progress, Each(DoubleNear(0.5, 0.02)));
}

TEST(TimeSharing, InTurnAJobOfShortStepsGetsLittle) {
  TimeSharing policy(0, TimeSharing::Order::kInTurn);
  const Outcome outcome = Share(policy, {Hill(900, 8, 4000), Hill(500, 4, 1000)}, 3e6);
  EXPECT_NEAR(outcome.progress[1] / outcome.progress[0], 1.0 / 8, 0.01);
}

TEST(TimeSharing, AHostGapCostsItsPart) {
  TimeSharing policy(0.25);
  EXPECT_THAT(Share(policy, {Hill(600, 4), Hill(900, 6)}, 1e6).Sum(), DoubleNear(0.8, 0.02));
}

TEST(Spatial, FullGridsTakeTurnsAndHalfFullOnesRunTogether) {
  const auto slots_of = [](double slots, OverlapModel overlap) {
    const Workload job = Job({{1, 1, 1000, slots}, {1, 0, 1000, slots}});
    Spatial policy;
    return Share(policy, {job, job}, 1e6, overlap).Sum();
  };
  EXPECT_THAT(slots_of(1, OverlapModel::kSlots), DoubleNear(1 / 1.03, 0.01));
  EXPECT_THAT(slots_of(1, OverlapModel::kVector), DoubleNear(2 / 1.03, 0.02));
  EXPECT_THAT(slots_of(0.5, OverlapModel::kSlots), DoubleNear(2 / 1.03, 0.02));
}

TEST(Greedy, DeadlocksWhereTheBankerDoesNot) {
  // Either fits alone, and each can hold so much that the other is stuck.
  const std::vector<Workload> jobs = {Hill(900, 9), Hill(900, 9)};
  Greedy greedy;
  const Outcome stuck = Share(greedy, jobs, 1e6);
  EXPECT_GT(stuck.drops, 0);
  EXPECT_LE(MostHeld(stuck), kMemory);
  Banker banker;
  const Outcome safe = Share(banker, jobs, 1e6);
  EXPECT_EQ(safe.drops, 0);
  EXPECT_LE(MostHeld(safe), kMemory);
  EXPECT_TRUE(AnyTwoOverlap(safe));
  EXPECT_THAT(safe.progress, Each(Ge(0.3)));
}

TEST(Greedy, DropsNothingWhereAllFit) {
  Greedy policy;
  const Outcome outcome = Share(policy, {Hill(500, 5), Hill(500, 3)}, 1e6);
  EXPECT_EQ(outcome.drops, 0);
  EXPECT_THAT(outcome.progress, Each(Ge(0.4)));
}

TEST(TickTock, OneGoesForwardWhileTheOtherGoesBackward) {
  const std::vector<Workload> jobs = {Hill(900, 8), Hill(900, 8)};
  TickTock policy(2);
  const Outcome outcome = Share(policy, jobs, 1e6);
  int together = 0;
  for (const auto& a : outcome.launches[0]) {
    for (const auto& b : outcome.launches[1]) {
      if (a.start >= b.end || b.start >= a.end) continue;
      ++together;
      EXPECT_NE(jobs[0].sub_models[a.sub_model].forward, jobs[1].sub_models[b.sub_model].forward);
    }
  }
  EXPECT_GT(together, 100);
  EXPECT_LE(MostHeld(outcome), kMemory);
  // Equal numbers of steps.
  EXPECT_NEAR(outcome.progress[0], outcome.progress[1], 0.02);
}

TEST(TickTock, ThreeJobsTakeTurnsInPairs) {
  TickTock policy(3);
  const Outcome outcome = Share(policy, {Hill(900, 8), Hill(800, 8), Hill(700, 8)}, 3e6);
  EXPECT_THAT(outcome.progress, Each(DoubleNear(outcome.Sum() / 3, 0.02)));
  EXPECT_LE(MostHeld(outcome), kMemory);
}

TEST(StreamPool, HoldsNoMoreThanThereIsAndBreaksDeadlocks) {
  const std::vector<Workload> jobs = {Hill(900, 40), Hill(900, 40)};
  StreamPool policy(2, 16, 5);
  const Outcome outcome = Share(policy, jobs, 1e6);
  EXPECT_GT(outcome.drops, 0);
  EXPECT_LE(MostHeld(outcome), kMemory);
}

TEST(StreamPool, AStreamReusesItsOwnBytesWithoutWaiting) {
  StreamPool policy(2, 1024, 5);
  const Outcome outcome = Share(policy, {Hill(500, 4), Hill(500, 4)}, 1e6);
  EXPECT_EQ(outcome.drops, 0);
  EXPECT_THAT(outcome.progress, Each(Ge(0.45)));
}

TEST(Policies, RandomJobsNeverHoldMoreThanThereIsAndTheSafeOnesNeverGetStuck) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<Workload> jobs;
    const int count = 2 + static_cast<int>(random() % 3);
    for (int j = 0; j < count; ++j) jobs.push_back(RandomJob(random, kMemory.count()));
    const auto overlap = seed % 2 == 0 ? OverlapModel::kSlots : OverlapModel::kVector;
    TimeSharing time_sharing(0);
    TimeSharing gap(0.1);
    Banker banker;
    TickTock tick_tock(count);
    for (SharingPolicy* policy :
         std::initializer_list<SharingPolicy*>{&time_sharing, &gap, &banker, &tick_tock}) {
      const Outcome outcome = Share(*policy, jobs, 1e5, overlap);
      EXPECT_LE(MostHeld(outcome), kMemory);
      EXPECT_EQ(outcome.drops, 0);
      EXPECT_GT(outcome.Sum(), 0.3);
    }
    Greedy greedy;
    StreamPool pool(count, 3, 5);
    for (SharingPolicy* policy : std::initializer_list<SharingPolicy*>{&greedy, &pool}) {
      EXPECT_LE(MostHeld(Share(*policy, jobs, 1e5, overlap)), kMemory);
    }
  }
}

// Every part makes a tensor of 100 bytes that backward reads again in reverse order.
Workload PagedJob(int parts) {
  Workload work = Hill(100 * parts, parts);
  const int nodes = 2 * parts;
  for (int p = 0; p < parts; ++p) work.tensors.push_back({Bytes(100), nodes - 1 - p});
  work.tensors.push_back({Bytes(50), -1});
  for (int n = 0; n < nodes; ++n) {
    const bool forward = n < parts;
    work.touched.push_back({{forward ? n : nodes - 1 - n, forward}, {parts, false}});
  }
  return work;
}

TEST(PagedSpatial, WhatFitsIsFetchedOnce) {
  const std::vector<Workload> jobs = {PagedJob(4), PagedJob(4)};
  PagedSpatial policy({&jobs[0], &jobs[1]}, kMemory, 0.1);
  Spatial unlimited;
  const double paged = Share(policy, jobs, 1e6).Sum();
  EXPECT_EQ(policy.fetched(), Bytes(100));  // the state of both
  EXPECT_EQ(policy.evicted(), Bytes(0));
  EXPECT_NEAR(paged, Share(unlimited, jobs, 1e6).Sum(), 0.02);
}

TEST(PagedSpatial, WhatDoesNotFitCostsItsTransfers) {
  const std::vector<Workload> jobs = {PagedJob(8), PagedJob(8)};
  const auto run = [&](double bandwidth) {
    PagedSpatial policy({&jobs[0], &jobs[1]}, kMemory, bandwidth);
    const double sum = Share(policy, jobs, 1e6).Sum();
    EXPECT_GT(policy.fetched(), Bytes(1000));
    EXPECT_GT(policy.evicted(), Bytes(1000));
    return sum;
  };
  const double slow = run(0.05), fast = run(10);
  EXPECT_LT(slow, 0.85);
  EXPECT_GT(fast, 0.9);
}

}  // namespace
}  // namespace ebb::bench
