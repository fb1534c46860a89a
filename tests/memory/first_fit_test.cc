#include "memory/first_fit.h"

#include <gtest/gtest.h>

#include "tests/memory/step_profiles.h"

namespace ebb::memory {
namespace {

bool LiveTogether(const LiveRange& a, const LiveRange& b) {
  return a.first <= b.last && b.first <= a.last;
}

// By the definition: addresses from 0 and the ends of what lies there, each held against all.
Bytes Lowest(absl::Span<const LiveRange> placed, absl::Span<const Bytes> offsets,
             const LiveRange& range) {
  std::optional<Bytes> lowest;
  for (size_t i = 0; i <= placed.size(); ++i) {
    const Bytes at = i == 0 ? Bytes(0) : offsets[i - 1] + placed[i - 1].bytes;
    bool free = true;
    for (size_t j = 0; j < placed.size(); ++j) {
      free = free && !(LiveTogether(placed[j], range) && offsets[j] < at + range.bytes &&
                       at < offsets[j] + placed[j].bytes);
    }
    if (free && (!lowest || at < *lowest)) lowest = at;
  }
  return *lowest;
}

TEST(FirstFit, PlacesAtTheLowestFreeAddressWhateverTheWindow) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    Dice dice(seed);
    const StepRanges step =
        Arbitrary(static_cast<int>(dice(1, 40)), static_cast<int>(dice(1, 80)), dice, 4096);
    std::vector<LiveRange> placed;
    std::vector<Bytes> offsets;
    FirstFit by_one(step.num_steps, 1), by_four(step.num_steps, 4),
        whole(step.num_steps, step.num_steps);
    for (const LiveRange& range : step.ranges) {
      if (range.bytes == Bytes(0)) continue;
      const Bytes lowest = Lowest(placed, offsets, range);
      ASSERT_EQ(by_one.Place(range, range.bytes), lowest) << "seed " << seed;
      ASSERT_EQ(by_four.Place(range, range.bytes), lowest) << "seed " << seed;
      ASSERT_EQ(whole.Place(range, range.bytes), lowest) << "seed " << seed;
      placed.push_back(range);
      offsets.push_back(lowest);
    }
  }
}

// A step over many batches: parts with activations of their own, and sums that live through all.
StepRanges Accumulating(int parts) {
  constexpr int kLength = 60, kSums = 5;
  StepRanges step{.num_steps = parts * kLength};
  for (int s = 0; s < kSums; ++s) step.ranges.push_back({Bytes(4096), s, step.num_steps - 1});
  for (int part = 0; part < parts; ++part) {
    const int begin = part * kLength;
    for (int i = 0; i < kLength / 2; ++i) {
      step.ranges.push_back({Bytes(256 * (i % 7 + 1)), begin + i, begin + kLength - 1 - i});
    }
  }
  return step;
}

TEST(FirstFit, LooksAtAFewRangesForEachPartOfAStepThatAccumulates) {
  const auto looked_at = [](int parts) {
    const StepRanges step = Accumulating(parts);
    FirstFit placed(step.num_steps, FirstFit::WindowFor(step.ranges, step.num_steps));
    for (const LiveRange& range : step.ranges) placed.Place(range, range.bytes);
    return static_cast<double>(placed.looked_at()) / static_cast<double>(step.ranges.size());
  };
  const double few = looked_at(20), many = looked_at(500);
  RecordProperty("looked_at_for_a_range", std::to_string(many));
  EXPECT_LT(many, 2 * few);
  EXPECT_LT(many, 200);  // of 15,000
}

}  // namespace
}  // namespace ebb::memory
