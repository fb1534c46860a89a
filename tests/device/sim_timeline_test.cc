// Virtual time by hand: what two streams take together under either model, and in which order.
#include <random>
#include <vector>

#include "device/sim/timeline.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/device/sim_profiles.h"

namespace ebb::device {
namespace {

using ebb::testing::PlainProfile;
using ::testing::ElementsAre;

constexpr StreamId kA(0), kB(1), kC(2);

Timeline Make(OverlapModel overlap, const SimProfile& profile = PlainProfile()) {
  Timeline timeline(profile, overlap);
  for (const StreamId stream : {kA, kB, kC}) timeline.AddStream(stream);
  return timeline;
}
void RunAll(Timeline& timeline) {
  while (timeline.Advance()) {
  }
}
KernelCost Conv(double micros) { return {micros, 1, 1, 0.2}; }  // arithmetic, a full grid
KernelCost Norm(double micros) { return {micros, 1, 0.1, 1}; }  // bandwidth, a full grid
KernelCost Small(double micros) { return {micros, 0.25, 0.2, 0.1}; }

struct Span {
  int64_t start, end;
  bool operator==(const Span&) const = default;
};
Span At(const Timeline::Event& event) {
  EXPECT_TRUE(event->complete);
  return {event->start.count(), event->end.count()};
}

TEST(SimTimeline, KernelsOfOneStreamFollowEachOther) {
  Timeline timeline = Make(OverlapModel::kSlots);
  const std::vector<KernelCost> kernels = {Conv(100), Norm(50)};
  timeline.Launch(kA, kernels, StepStart::kNo);
  const auto first = timeline.Record(kA);
  timeline.Kernel(kA, Small(25));
  const auto second = timeline.Record(kA);
  RunAll(timeline);
  EXPECT_EQ(At(first), (Span{0, 150}));
  EXPECT_EQ(At(second), (Span{150, 175}));
  EXPECT_DOUBLE_EQ(timeline.now(), 175);
}

// Both models, the same two full grids: a convolution of 100 us and a batch norm of 60 us.
TEST(SimTimeline, FullGridsTakeTurnsInSlotsAndOverlapInVector) {
  for (const OverlapModel overlap : {OverlapModel::kSlots, OverlapModel::kVector}) {
    Timeline timeline = Make(overlap);
    timeline.Kernel(kA, Conv(100));
    timeline.Kernel(kB, Norm(60));
    const auto a = timeline.Record(kA), b = timeline.Record(kB);
    RunAll(timeline);
    if (overlap == OverlapModel::kSlots) {
      // Half speed each: B ends at 120, A has 40 left.
      EXPECT_EQ(At(b), (Span{0, 120}));
      EXPECT_EQ(At(a), (Span{0, 160}));
    } else {
      // Bandwidth 1.2 and arithmetic 1.1 are asked for: all run at 1 / 1.2. B ends at 72; A has 40
      // left and goes on alone.
      EXPECT_EQ(At(b), (Span{0, 72}));
      EXPECT_EQ(At(a), (Span{0, 112}));
    }
  }
}

TEST(SimTimeline, SmallGridsDoNotSlowEachOther) {
  Timeline timeline = Make(OverlapModel::kSlots);
  for (const StreamId stream : {kA, kB, kC}) timeline.Kernel(stream, Small(80));
  const auto a = timeline.Record(kA), c = timeline.Record(kC);
  RunAll(timeline);
  EXPECT_EQ(At(a), (Span{0, 80}));
  EXPECT_EQ(At(c), (Span{0, 80}));
}

TEST(SimTimeline, EveryFurtherKernelInterferes) {
  SimProfile profile = PlainProfile();
  profile.interference = 0.25;
  Timeline timeline = Make(OverlapModel::kSlots, profile);
  for (const StreamId stream : {kA, kB, kC}) timeline.Kernel(stream, Small(80));
  const auto a = timeline.Record(kA);
  RunAll(timeline);
  EXPECT_EQ(At(a), (Span{0, 120}));  // 80 x (1 + 2 x 0.25)
}

TEST(SimTimeline, AKernelsSpeedChangesWhenItsNeighbourEnds) {
  Timeline timeline = Make(OverlapModel::kSlots);
  timeline.Kernel(kA, Conv(100));
  timeline.Kernel(kB, Conv(30));
  timeline.Kernel(kB, Small(10));
  const auto a = timeline.Record(kA), b = timeline.Record(kB);
  RunAll(timeline);
  // 60 us at half speed, 12.5 us at 1 / 1.25 for B's second, the rest alone: 100 - 30 - 10 = 60.
  EXPECT_EQ(At(b), (Span{0, 73}));
  EXPECT_EQ(At(a), (Span{0, 133}));
  EXPECT_DOUBLE_EQ(timeline.now(), 132.5);
}

TEST(SimTimeline, AGapSeparatesKernelsOfOneStreamAndFillsWithTheOthers) {
  SimProfile profile = PlainProfile();
  profile.kernel_gap_us = 10;
  Timeline timeline = Make(OverlapModel::kSlots, profile);
  timeline.Kernel(kA, Conv(20));
  timeline.Kernel(kA, Conv(20));
  const auto a = timeline.Record(kA);
  RunAll(timeline);
  EXPECT_EQ(At(a), (Span{0, 50}));
}

TEST(SimTimeline, TheHostLaunchesOneByOneAheadOfTheDevice) {
  SimProfile profile = PlainProfile();
  profile.admission_us = 15;
  profile.step_us = 200;
  profile.launch_us = 5;
  Timeline timeline = Make(OverlapModel::kSlots, profile);
  // Long kernels: the host is ahead after the first. A view between them costs it nothing.
  const std::vector<KernelCost> long_ones = {Conv(50), KernelCost(), Conv(50)};
  timeline.Launch(kA, long_ones, StepStart::kNo);
  const auto a = timeline.Record(kA);
  // Short ones: the device waits for the host, five microseconds each.
  const std::vector<KernelCost> short_ones(4, Small(1));
  timeline.Launch(kB, short_ones, StepStart::kYes);
  const auto b = timeline.Record(kB);
  RunAll(timeline);
  EXPECT_EQ(At(a).start, 20);  // 15 + 5
  EXPECT_EQ(At(a).end, 120);
  EXPECT_EQ(At(b).start, 220);  // 15 + 200 + 5
  EXPECT_EQ(At(b).end, 236);    // the last is launched at 235
}

TEST(SimTimeline, TheNextLaunchIsAdmittedWhileTheDeviceIsBusy) {
  SimProfile profile = PlainProfile();
  profile.admission_us = 40;
  profile.launch_us = 5;
  Timeline timeline = Make(OverlapModel::kSlots, profile);
  const std::vector<KernelCost> kernels = {Conv(100)};
  timeline.Launch(kA, kernels, StepStart::kNo);  // runs from 45 to 145
  timeline.Launch(kA, kernels, StepStart::kNo);  // launched at 90
  const auto a = timeline.Record(kA);
  RunAll(timeline);
  EXPECT_EQ(At(a), (Span{45, 245}));
}

TEST(SimTimeline, WaitsMakeChainsAcrossStreams) {
  Timeline timeline = Make(OverlapModel::kSlots);
  timeline.Kernel(kC, Small(30));
  const auto c = timeline.Record(kC);
  timeline.Wait(kB, c);
  timeline.Kernel(kB, Small(20));
  const auto b = timeline.Record(kB);
  timeline.Kernel(kA, Small(10));
  const auto early = timeline.Record(kA);
  timeline.Wait(kA, b);
  timeline.Kernel(kA, Small(10));
  const auto a = timeline.Record(kA);
  RunAll(timeline);
  EXPECT_EQ(At(c), (Span{0, 30}));
  EXPECT_EQ(At(b), (Span{30, 50}));  // waiting is not in the stamps
  EXPECT_EQ(At(early), (Span{0, 10}));
  EXPECT_EQ(At(a), (Span{50, 60}));
}

TEST(SimTimeline, CopiesOverlapKernelsAndTheOtherDirection) {
  Timeline timeline = Make(OverlapModel::kSlots);
  timeline.Kernel(kA, Conv(100));
  timeline.Copy(kB, BusDirection::kToDevice, 60);
  timeline.Copy(kC, BusDirection::kToHost, 70);
  const auto a = timeline.Record(kA), b = timeline.Record(kB), c = timeline.Record(kC);
  RunAll(timeline);
  EXPECT_EQ(At(a), (Span{0, 100}));
  EXPECT_EQ(At(b), (Span{0, 60}));
  EXPECT_EQ(At(c), (Span{0, 70}));
}

TEST(SimTimeline, CopiesOfOneDirectionTakeTurnsInTheirOrder) {
  Timeline timeline = Make(OverlapModel::kSlots);
  timeline.Kernel(kA, Small(10));
  timeline.Copy(kA, BusDirection::kToDevice, 40);  // asked for at 10
  timeline.Copy(kB, BusDirection::kToDevice, 60);
  timeline.Copy(kB, BusDirection::kToDevice, 5);  // asked for at 60, after A's
  const auto a = timeline.Record(kA), b = timeline.Record(kB);
  RunAll(timeline);
  EXPECT_EQ(At(a), (Span{0, 100}));
  EXPECT_EQ(At(b), (Span{0, 105}));
}

TEST(SimTimeline, TimeStandsStillWhenNothingIsInMotion) {
  Timeline timeline = Make(OverlapModel::kSlots);
  EXPECT_FALSE(timeline.Advance());
  const auto empty = timeline.Record(kA);
  EXPECT_TRUE(timeline.Advance());
  EXPECT_EQ(At(empty), (Span{0, 0}));
  EXPECT_FALSE(timeline.Advance());
  EXPECT_TRUE(timeline.Idle(kA));
}

// Work is conserved: what a random mix takes lies between the longest stream alone and all streams
// one after the other, and the same mix takes the same time again.
TEST(SimTimeline, RandomMixesAreBoundedAndReproducible) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    double longest = 0, sum = 0;
    std::vector<std::vector<int64_t>> runs;
    for (int run = 0; run < 2; ++run) {
      std::mt19937_64 random(seed);
      std::uniform_real_distribution<double> unit(0.01, 1);
      const auto overlap = seed % 2 == 0 ? OverlapModel::kSlots : OverlapModel::kVector;
      Timeline timeline = Make(overlap);
      longest = sum = 0;
      std::vector<Timeline::Event> events;
      for (const StreamId stream : {kA, kB, kC}) {
        double alone = 0;
        for (int k = 0; k < 40; ++k) {
          const KernelCost kernel{100 * unit(random), unit(random), unit(random), unit(random)};
          timeline.Kernel(stream, kernel);
          alone += kernel.micros;
          if (k % 10 == 9) events.push_back(timeline.Record(stream));
        }
        longest = std::max(longest, alone);
        sum += alone;
      }
      RunAll(timeline);
      EXPECT_GE(timeline.now(), longest - 1e-6) << "seed " << seed;
      EXPECT_LE(timeline.now(), sum + 1e-6) << "seed " << seed;
      runs.emplace_back();
      for (const auto& event : events) runs.back().push_back(At(event).end);
    }
    EXPECT_EQ(runs[0], runs[1]) << "seed " << seed;
  }
}

}  // namespace
}  // namespace ebb::device
