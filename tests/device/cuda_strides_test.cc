// Quotients by multiplication and offsets in strided views are those of plain arithmetic.
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "device/cuda/strides.h"
#include "gtest/gtest.h"

namespace ebb::device::cuda {
namespace {

constexpr uint64_t kSeed = 11;

// Random numbers of 1 to `bits` bits.
uint64_t Random(uint32_t i, uint32_t stream, uint32_t bits) {
  const PhiloxCounter words = Philox({i, stream, 0, 0}, PhiloxKeyFrom(kSeed));
  const uint64_t word = uint64_t{words[0]} << 32 | words[1];
  return word >> (64 - 1 - words[2] % bits);
}

TEST(Divider, QuotientsAreExact) {
  for (uint32_t i = 0; i < 500'000; ++i) {
    const auto by = static_cast<int64_t>(Random(i, 0, 61) + 1);
    const Divider divider(by);
    const auto n = static_cast<int64_t>(Random(i, 1, 63));
    const int64_t multiple = n / by * by;
    for (const int64_t m : {n, multiple, multiple + by - 1 < n ? n : multiple + by - 1}) {
      if (m < 0) continue;
      ASSERT_EQ(divider.Quotient(m), m / by) << m << " / " << by << ", seed " << kSeed;
    }
  }
}

TEST(Divider, QuotientsAreExactAtTheEdgesOf32And64Bits) {
  const int64_t edge = int64_t{1} << 31;
  for (const int64_t by : {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{255}, int64_t{256}, edge - 1,
                           edge, edge + 1, 2 * edge - 1, 2 * edge, int64_t{1} << 61}) {
    const Divider divider(by);
    for (const int64_t n : {int64_t{0}, int64_t{1}, by - 1, by, edge - 2, edge - 1, edge, edge + 1,
                            2 * edge, INT64_MAX - 1, INT64_MAX}) {
      const auto [quotient, rest] = divider(n);
      EXPECT_EQ(quotient, n / by) << n << " / " << by;
      EXPECT_EQ(rest, n % by) << n << " / " << by;
    }
  }
}

TEST(Strides, OffsetsAreThoseOfNestedLoops) {
  Strides<2> views;  // the fastest first
  views.Append(5, {1, 40});
  views.Append(1, {7, 7});
  views.Append(4, {-10, 0});
  views.Append(3, {100, 3});
  int64_t i = 0;
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t b = 0; b < 4; ++b) {
      for (int64_t a = 0; a < 5; ++a, ++i) {
        const auto offsets = views.Of(i);
        EXPECT_EQ(offsets.at[0], a - 10 * b + 100 * c) << i;
        EXPECT_EQ(offsets.at[1], 40 * a + 3 * c) << i;
      }
    }
  }
}

}  // namespace
}  // namespace ebb::device::cuda
