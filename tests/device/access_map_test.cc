// The parts of the race check against byte-wise models of them.
#include "device/check/access_map.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "device/check/memory_map.h"

namespace ebb::device {
namespace {

constexpr int kStreams = 3;
constexpr int kCells = 48;

const auto kWhat = std::make_shared<const std::string>("an access");

// Every access that ever was, byte by byte.
class NaiveAccesses {
 public:
  bool Conflicts(const AddressRange& range, const Access& access, const Clocks& clocks) {
    bool conflicts = false;
    for (uintptr_t cell = range.begin; cell < range.end; ++cell) {
      for (const Access& earlier : cells_[cell]) {
        conflicts |= (earlier.writes || access.writes) &&
                     !clocks.Before(earlier.operation, access.operation.stream);
      }
      cells_[cell].push_back(access);
    }
    return conflicts;
  }
  bool InUse(const AddressRange& range, const Clocks& clocks) {
    bool in_use = false;
    for (uintptr_t cell = range.begin; cell < range.end; ++cell) {
      for (const Access& earlier : cells_[cell]) {
        in_use |= !clocks.KnownComplete(earlier.operation);
      }
      cells_[cell].clear();
    }
    return in_use;
  }

 private:
  std::array<std::vector<Access>, kCells> cells_;
};

// Until the first race, since a race leaves no order to go on from.
TEST(AccessMap, FindsTheRacesThatAByteWiseHistoryFinds) {
  int64_t raced = 0, taken = 0, accesses = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    std::mt19937_64 random(seed);
    const auto dice = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    Clocks clocks;
    AccessMap map;
    NaiveAccesses naive;
    std::vector<EventId> events;
    const int64_t ordering = dice(20, 90);  // of a hundred operations
    for (int64_t i = 0; i < 120; ++i) {
      const StreamId stream(static_cast<int32_t>(dice(0, kStreams - 1)));
      if (dice(1, 100) <= ordering) {
        const int64_t kind = dice(0, 3);
        if (kind == 0 || events.empty()) {
          events.emplace_back(i);
          clocks.Record(stream, events.back());
        } else if (kind < 3) {
          // Mostly a late one, as the engine waits.
          const auto last = static_cast<int64_t>(events.size()) - 1;
          clocks.Wait(stream,
                      events[static_cast<size_t>(dice(std::max<int64_t>(0, last - 2), last))]);
        } else {
          clocks.SeenComplete(
              events[static_cast<size_t>(dice(0, static_cast<int64_t>(events.size()) - 1))]);
        }
        continue;
      }
      const auto begin = static_cast<uintptr_t>(dice(0, kCells - 1));
      const AddressRange range{
          begin, begin + static_cast<uintptr_t>(dice(0, kCells - static_cast<int64_t>(begin)))};
      bool found = false;
      const auto conflict = [&](const AddressRange& shared, const Access&) {
        found = true;
        EXPECT_TRUE(shared.begin >= range.begin && shared.end <= range.end);
      };
      if (dice(0, 19) == 0) {
        ASSERT_EQ((map.Erase(range, clocks, conflict), found), naive.InUse(range, clocks))
            << "seed " << seed;
        taken += found;
        continue;
      }
      const Access access{clocks.Enqueue(stream), dice(0, 1) == 0, kWhat};
      map.Enter(range, access, clocks, conflict);
      map.CheckInvariants();
      ++accesses;
      ASSERT_EQ(found, naive.Conflicts(range, access, clocks)) << "seed " << seed;
      raced += found;
      if (found) break;
    }
  }
  // Both answers must have come up often.
  EXPECT_GT(raced, 500);
  EXPECT_GT(taken, 100);
  EXPECT_GT(accesses, 20 * raced / 10);
}

TEST(AccessMap, ForgetsWhatTheHostKnowsToBeComplete) {
  Clocks clocks;
  AccessMap map;
  std::mt19937_64 random(1);
  const auto none = [](const AddressRange&, const Access&) { FAIL(); };
  const StreamId stream(0);
  for (int64_t i = 0; i < 100'000; ++i) {
    const uintptr_t begin = random() % (1 << 24);
    map.Enter({begin, begin + 1 + random() % 64},
              {clocks.Enqueue(stream), random() % 2 == 0, kWhat}, clocks, none);
    if (i % 100 == 99) {
      clocks.Record(stream, EventId(i));
      clocks.SeenComplete(EventId(i));
      clocks.Forget(EventId(i));
    }
  }
  EXPECT_LE(map.segments(), 2048u);
}

TEST(MemoryMap, AgreesWithAByteWiseMap) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed);
    MemoryMap map;
    // Two reservations with a cell between them that is someone else's.
    std::array<bool, kCells> reserved{}, committed{};
    const std::array<AddressRange, 2> regions = {AddressRange{4, 20}, AddressRange{21, 40}};
    for (const AddressRange& region : regions) {
      map.Reserve(region);
      std::fill(&reserved[region.begin], &reserved[region.end], true);
    }
    for (int i = 0; i < 60; ++i) {
      const AddressRange& region = regions[random() % 2];
      const uintptr_t begin = region.begin + random() % (region.end - region.begin);
      const AddressRange part{begin, begin + 1 + random() % (region.end - begin)};
      const bool commit = random() % 2 == 0;
      commit ? map.Commit(part) : map.Decommit(part);
      std::fill(&committed[part.begin], &committed[part.end], commit);
      for (uintptr_t from = 0; from < kCells; ++from) {
        bool has = true;
        for (uintptr_t to = from; to < kCells; ++to) {
          has &= !reserved[to] || committed[to];
          ASSERT_EQ(map.HasMemory({from, to + 1}), has)
              << "seed " << seed << " " << from << " " << to;
        }
      }
    }
    map.Unreserve(regions[0]);
    EXPECT_TRUE(map.HasMemory({4, 20}));
  }
}

}  // namespace
}  // namespace ebb::device
