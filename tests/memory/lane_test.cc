#include "memory/lane.h"

#include <gtest/gtest.h>

#include <deque>

#include "tests/memory/step_profiles.h"

namespace ebb::memory {
namespace {

Claim ClaimOf(int64_t extent, int64_t held_after, int sub_model = 0) {
  return {JobId(1), sub_model, Bytes(extent), Bytes(held_after)};
}

TEST(Lane, BlocksFollowTheStack) {
  LaneState lane(Bytes(100));
  EXPECT_FALSE(lane.Enqueue(End::kBottom, LaunchSeq(0), ClaimOf(30, 20, 0)));
  EXPECT_FALSE(lane.Enqueue(End::kBottom, LaunchSeq(1), ClaimOf(60, 50, 1)));
  ASSERT_EQ(lane.Blocks(End::kBottom).size(), 2u);
  EXPECT_EQ(lane.Blocks(End::kBottom)[0].bytes, Bytes(20));
  EXPECT_EQ(lane.Blocks(End::kBottom)[1].offset, Bytes(20));
  EXPECT_EQ(lane.Blocks(End::kBottom)[1].bytes, Bytes(30));
  EXPECT_EQ(lane.Held(End::kBottom), Bytes(50));
  EXPECT_EQ(lane.Reach(End::kBottom), Bytes(60));
  lane.Enqueue(End::kBottom, LaunchSeq(2), ClaimOf(55, 10, 2));
  ASSERT_EQ(lane.Blocks(End::kBottom).size(), 1u);
  EXPECT_EQ(lane.Blocks(End::kBottom)[0].bytes, Bytes(10));
  lane.Enqueue(End::kBottom, LaunchSeq(3), ClaimOf(10, 0, 3));
  EXPECT_TRUE(lane.Blocks(End::kBottom).empty());
  EXPECT_FALSE(lane.Drained());
  lane.Complete(End::kBottom, LaunchSeq(3));
  EXPECT_TRUE(lane.Drained());
  lane.CheckInvariants();
}

TEST(Lane, WaitsForTheNewestConflictOfTheOtherEndOnly) {
  LaneState lane(Bytes(100));
  lane.Enqueue(End::kBottom, LaunchSeq(0), ClaimOf(80, 80));
  lane.Enqueue(End::kBottom, LaunchSeq(1), ClaimOf(80, 40));
  lane.Enqueue(End::kBottom, LaunchSeq(2), ClaimOf(40, 40));
  EXPECT_EQ(lane.Enqueue(End::kTop, LaunchSeq(3), ClaimOf(20, 20)), std::nullopt);
  EXPECT_EQ(lane.Enqueue(End::kTop, LaunchSeq(4), ClaimOf(50, 20)), LaunchSeq(1));
  lane.Complete(End::kBottom, LaunchSeq(1));
  EXPECT_EQ(lane.Enqueue(End::kTop, LaunchSeq(5), ClaimOf(50, 20)), std::nullopt);
  lane.CheckInvariants();
}

TEST(Lane, WaitsForLaunchesOfADroppedStep) {
  LaneState lane(Bytes(100));
  lane.Enqueue(End::kBottom, LaunchSeq(0), ClaimOf(70, 60));
  EXPECT_FALSE(lane.Fits(End::kTop, Bytes(50)));
  lane.Drop(End::kBottom);
  EXPECT_TRUE(lane.Fits(End::kTop, Bytes(50)));
  EXPECT_EQ(lane.Sum().waiting, Bytes(70));
  EXPECT_EQ(lane.Enqueue(End::kTop, LaunchSeq(1), ClaimOf(50, 0)), LaunchSeq(0));
}

TEST(Lane, WaitingBytesOfBothEndsAreCountedOnce) {
  LaneState lane(Bytes(100));
  lane.Enqueue(End::kBottom, LaunchSeq(0), ClaimOf(70, 10));
  lane.Enqueue(End::kTop, LaunchSeq(1), ClaimOf(60, 20));
  LaneState::Totals totals = lane.Sum();
  EXPECT_EQ(totals.held[0], Bytes(10));
  EXPECT_EQ(totals.held[1], Bytes(20));
  EXPECT_EQ(totals.waiting, Bytes(70));
  EXPECT_EQ(totals.free, Bytes(0));
  lane.Complete(End::kBottom, LaunchSeq(0));
  totals = lane.Sum();
  EXPECT_EQ(totals.waiting, Bytes(40));
  EXPECT_EQ(totals.free, Bytes(30));
}

// The same, byte by byte.
struct ByteLane {
  struct Launch {
    LaunchSeq seq;
    int64_t extent;
  };
  int64_t size;
  int64_t held[2] = {0, 0};
  std::deque<Launch> outstanding[2];

  bool In(int end, int64_t extent, int64_t byte) const {
    return end == 0 ? byte < extent : byte >= size - extent;
  }
  LaneState::Totals Sum() const {
    LaneState::Totals totals;
    for (int64_t byte = 0; byte < size; ++byte) {
      bool held_here = false, waiting = false;
      for (int end = 0; end < 2; ++end) {
        if (In(end, held[end], byte)) {
          held_here = true;
          totals.held[end] += Bytes(1);
        }
        for (const Launch& launch : outstanding[end]) waiting |= In(end, launch.extent, byte);
      }
      if (held_here) continue;
      (waiting ? totals.waiting : totals.free) += Bytes(1);
    }
    return totals;
  }
  std::optional<LaunchSeq> Conflict(int end, int64_t extent) const {
    std::optional<LaunchSeq> newest;
    for (const Launch& launch : outstanding[1 - end]) {
      for (int64_t byte = 0; byte < size; ++byte) {
        if (In(end, extent, byte) && In(1 - end, launch.extent, byte)) newest = launch.seq;
      }
    }
    return newest;
  }
};

TEST(Lane, AgreesWithAByteByByteLedger) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Dice dice(seed);
    const int64_t size = dice(1, 60);
    LaneState lane{Bytes(size)};
    ByteLane bytes{size, {0, 0}, {}};
    int64_t seq = 0;
    for (int event = 0; event < 80; ++event) {
      const int e = static_cast<int>(dice(0, 1));
      const End end = e == 0 ? End::kBottom : End::kTop;
      const int64_t kind = dice(0, 9);
      if (kind < 6) {
        const int64_t extent = dice(bytes.held[e], size - bytes.held[1 - e]);
        const int64_t held = dice(0, extent);
        const auto conflict = bytes.Conflict(e, extent);
        ASSERT_TRUE(lane.Fits(end, Bytes(extent)));
        ASSERT_EQ(lane.Enqueue(end, LaunchSeq(seq), ClaimOf(extent, held)), conflict);
        bytes.held[e] = held;
        bytes.outstanding[e].push_back({LaunchSeq(seq++), extent});
      } else if (kind < 9) {
        if (bytes.outstanding[e].empty()) continue;
        lane.Complete(end, bytes.outstanding[e].front().seq);
        bytes.outstanding[e].pop_front();
      } else {
        lane.Drop(end);
        bytes.held[e] = 0;
      }
      const LaneState::Totals got = lane.Sum(), want = bytes.Sum();
      ASSERT_EQ(got.held[0], want.held[0]);
      ASSERT_EQ(got.held[1], want.held[1]);
      ASSERT_EQ(got.waiting, want.waiting);
      ASSERT_EQ(got.free, want.free);
      ASSERT_EQ(got.held[0] + got.held[1] + got.waiting + got.free, Bytes(size));
      lane.CheckInvariants();
    }
  }
}

}  // namespace
}  // namespace ebb::memory
