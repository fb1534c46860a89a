#include "perfmodel/quantile.h"

#include <gtest/gtest.h>

namespace ebb::perfmodel {
namespace {

TEST(QuantileTest, MediansAreTheMiddleOrTheMeanOfTheMiddleTwo) {
  EXPECT_EQ(MedianOf({}), 0);
  EXPECT_EQ(MedianOf({3}), 3);
  EXPECT_EQ(MedianOf({5, 1, 3}), 3);
  EXPECT_EQ(MedianOf({8, 1, 3, 4}), 3.5);
}

TEST(QuantileTest, QuantilesAreLinearBetweenNeighbours) {
  const double sorted[] = {1, 2, 4};
  EXPECT_EQ(QuantileOf(sorted, 0), 1);
  EXPECT_EQ(QuantileOf(sorted, 0.25), 1.5);
  EXPECT_EQ(QuantileOf(sorted, 0.75), 3);
  EXPECT_EQ(QuantileOf(sorted, 1), 4);
}

}  // namespace
}  // namespace ebb::perfmodel
