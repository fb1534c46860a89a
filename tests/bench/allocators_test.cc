// Allocators that traces are replayed through: each keeps to its rule, and none hands out bytes
// that are in use; nor does the plan.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "bench/allocators/replay.h"

namespace ebb::bench {
namespace {

TraceBuffer Buffer(Bytes bytes, int job = 0) { return {.bytes = bytes, .job = job}; }

// Address ranges in use.
class InUse {
 public:
  // False if some of the bytes are in use already.
  bool Take(int64_t at, int64_t bytes) {
    const auto next = ranges_.lower_bound(at);
    if (next != ranges_.end() && next->first < at + bytes) return false;
    if (next != ranges_.begin() && std::prev(next)->second > at) return false;
    return ranges_.emplace(at, at + bytes).second;
  }
  void Give(int64_t at) { ranges_.erase(at); }

 private:
  std::map<int64_t, int64_t> ranges_;
};

AllocationTrace RandomTrace(uint32_t seed) {
  std::mt19937 random(seed);
  AllocationTrace trace;
  std::vector<int32_t> live;
  Bytes sum;
  for (int i = 0; i < 4000; ++i) {
    if (live.empty() || random() % 100 < (i / 500 % 2 == 0 ? 70 : 35)) {
      const Bytes bytes(256 * (1 + static_cast<int64_t>(random() % 1000)) << (random() % 8));
      live.push_back(static_cast<int32_t>(trace.buffers.size()));
      trace.buffers.push_back(Buffer(bytes, static_cast<int>(random() % 2)));
      trace.ops.push_back({live.back(), true});
      sum += bytes;
      trace.live_peak = std::max(trace.live_peak, sum);
    } else {
      std::swap(live[random() % live.size()], live.back());
      trace.ops.push_back({live.back(), false});
      sum -= trace.buffers[static_cast<size_t>(live.back())].bytes;
      live.pop_back();
    }
  }
  return trace;
}

TEST(Allocators, HandOutNoByteTwiceAndNeedAtLeastWhatLives) {
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const AllocationTrace trace = RandomTrace(seed);
    for (const std::string& name : AllocatorNames()) {
      if (name == "ebb") continue;
      SCOPED_TRACE(name + ", seed " + std::to_string(seed));
      const bool has_addresses = name.find("blocks") == std::string::npos;
      const auto allocator = MakeAllocator(name);
      std::vector<ReplayAllocator::Handle> handles(trace.buffers.size());
      InUse in_use;
      for (const TraceOp& op : trace.ops) {
        const TraceBuffer& buffer = trace.buffers[static_cast<size_t>(op.buffer)];
        ReplayAllocator::Handle& handle = handles[static_cast<size_t>(op.buffer)];
        if (op.birth) {
          handle = allocator->Allocate(buffer);
          if (!has_addresses) continue;
          ASSERT_TRUE(in_use.Take(handle, buffer.bytes.count()));
          ASSERT_LE(handle + buffer.bytes.count(), allocator->peak().count());
        } else {
          allocator->Free(handle);
          if (has_addresses) in_use.Give(handle);
        }
      }
      EXPECT_GE(allocator->peak(), trace.live_peak);
    }
  }
}

TEST(Allocators, BestFitTakesTheSmallestHoleAndJoinsNeighbours) {
  const auto arena = MakeBestFit();
  const auto a = arena->Allocate(Buffer(KiB(4)));
  arena->Allocate(Buffer(KiB(1)));
  const auto b = arena->Allocate(Buffer(KiB(2)));
  arena->Allocate(Buffer(KiB(1)));
  arena->Free(a);
  arena->Free(b);
  EXPECT_EQ(arena->Allocate(Buffer(KiB(2))), b);
  EXPECT_EQ(arena->Allocate(Buffer(KiB(2))), a);
  EXPECT_EQ(arena->Allocate(Buffer(KiB(2))), a + 2048);
  EXPECT_EQ(arena->peak(), KiB(8));
  arena->Free(a + 2048);
  arena->Free(a);
  EXPECT_EQ(arena->Allocate(Buffer(KiB(4))), a);
}

TEST(Allocators, BfcCutsAHoleOnlyIfMuchIsLeft) {
  const auto arena = MakeBfc();
  const auto hole = arena->Allocate(Buffer(MiB(3)));
  arena->Allocate(Buffer(MiB(1)));
  arena->Free(hole);
  EXPECT_EQ(arena->Allocate(Buffer(MiB(2))), hole);  // of the whole hole
  EXPECT_EQ(arena->Allocate(Buffer(MiB(1))), MiB(4).count());
  arena->Free(hole);
  EXPECT_EQ(arena->Allocate(Buffer(MiB(1))), hole);  // less than half of it
  EXPECT_EQ(arena->Allocate(Buffer(MiB(2))), hole + MiB(1).count());
  EXPECT_EQ(arena->peak(), MiB(5));
  const auto large = arena->Allocate(Buffer(MiB(300)));
  arena->Allocate(Buffer(MiB(1)));
  arena->Free(large);
  EXPECT_EQ(arena->Allocate(Buffer(MiB(170))), large);  // 130 MiB would be lost
  EXPECT_EQ(arena->Allocate(Buffer(MiB(130))), large + MiB(170).count());
}

TEST(Allocators, ABlockOfAStreamServesNoOther) {
  const auto caching = MakePerStream();
  const auto first = caching->Allocate(Buffer(MiB(100), 0));
  caching->Free(first);
  EXPECT_NE(caching->Allocate(Buffer(MiB(100), 1)), first);
  EXPECT_EQ(caching->peak(), MiB(200));
  EXPECT_EQ(caching->Allocate(Buffer(MiB(60), 0)), first);
  EXPECT_EQ(caching->Allocate(Buffer(MiB(40), 0)), first + MiB(60).count());
  EXPECT_EQ(caching->peak(), MiB(200));
  caching->Allocate(Buffer(KiB(1), 0));
  EXPECT_EQ(caching->peak(), MiB(202));
  caching->Allocate(Buffer(MiB(5), 0));
  EXPECT_EQ(caching->peak(), MiB(222));
}

TEST(Allocators, ABlockIsOneLaunchsAndFreeWhenAllInItHasDied) {
  const auto blocks = MakeBlocks(MiB(2));
  const auto born_in = [](Bytes bytes, int launch, bool outlives) {
    return TraceBuffer{.bytes = bytes, .launch = launch, .outlives = outlives};
  };
  const auto a = blocks->Allocate(born_in(MiB(1), 0, true));
  EXPECT_EQ(blocks->Allocate(born_in(MiB(1), 0, true)), a);
  EXPECT_EQ(blocks->peak(), MiB(2));
  EXPECT_NE(blocks->Allocate(born_in(KiB(1), 0, false)), a);
  EXPECT_EQ(blocks->peak(), MiB(4));
  blocks->Allocate(born_in(KiB(1), 1, true));
  EXPECT_EQ(blocks->peak(), MiB(6));
  blocks->Free(a);
  blocks->Allocate(born_in(MiB(5), 1, true));  // three blocks
  EXPECT_EQ(blocks->peak(), MiB(12));
  blocks->Free(a);
  blocks->Allocate(born_in(KiB(1), 2, true));
  EXPECT_EQ(blocks->peak(), MiB(12));
}

TEST(AllocationTrace, IsOfBalancedBirthsAndDeathsAndThePlanKeepsThemApart) {
  const auto trace = RecordTrace("sim:v100-16gb", {{"mobilenet_v2", 200}, {"resnet50", 100}}, 3);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->ops.size(), trace->buffers.size() * 2);
  EXPECT_GE(trace->planned_peak, trace->live_peak);
  EXPECT_LT(trace->planned_peak / trace->live_peak, 1.1);
  // Both jobs' buffers, at the plan's addresses in a lane of that size.
  InUse in_use;
  int jobs_live[2] = {}, together = 0;
  for (const TraceOp& op : trace->ops) {
    const TraceBuffer& buffer = trace->buffers[static_cast<size_t>(op.buffer)];
    const Bytes at =
        buffer.job == 0 ? buffer.offset : trace->planned_peak - buffer.offset - buffer.bytes;
    ASSERT_GE(at, Bytes(0));
    jobs_live[buffer.job] += op.birth ? 1 : -1;
    if (jobs_live[0] > 0 && jobs_live[1] > 0) ++together;
    if (op.birth) {
      ASSERT_TRUE(in_use.Take(at.count(), buffer.bytes.count()));
    } else {
      in_use.Give(at.count());
    }
  }
  EXPECT_EQ(jobs_live[0] + jobs_live[1], 0);
  EXPECT_GT(together, 1000);
  const TraceFigures figures = Replay(*trace, 1);
  EXPECT_EQ(figures.allocators.size(), AllocatorNames().size());
  EXPECT_LT(figures.allocators.at("ebb").over_live, figures.allocators.at("best_fit").over_live);
}

}  // namespace
}  // namespace ebb::bench
