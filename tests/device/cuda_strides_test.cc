// Offsets in strided views are those of nested loops.
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "device/cuda/strides.h"
#include "gtest/gtest.h"

namespace ebb::device::cuda {
namespace {

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
