#include "perfmodel/curve.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ebb::perfmodel {
namespace {

Curve::Subject EightRanks() { return {.ranks = 8, .source = "test"}; }

// 10 us and 1 us for each 1000 bytes, at powers of two.
std::vector<CurvePoint> Line(int first = 10, int last = 30) {
  std::vector<CurvePoint> points;
  for (int power = first; power <= last; ++power) {
    const double bytes = std::ldexp(1.0, power);
    points.push_back({bytes, 10 + bytes / 1000});
  }
  return points;
}

TEST(Curve, SaysWhatWasMeasuredAtMeasuredSizes) {
  const auto curve = Curve::Make(EightRanks(), Line());
  ASSERT_TRUE(curve.ok()) << curve.status();
  for (const CurvePoint& point : Line()) {
    const Estimate estimate = curve->At(point.bytes);
    EXPECT_NEAR(estimate.median, point.micros, 1e-9 * point.micros);
    EXPECT_TRUE(estimate.in_hull);
    EXPECT_LT(estimate.low, estimate.median);
    EXPECT_GT(estimate.high, estimate.median);
  }
  EXPECT_EQ(curve->At(4096).source, "measured: all_reduce of 8 ranks, 21 sizes");
}

TEST(Curve, FollowsALineBetweenSizesAndBeyondBothEnds) {
  const auto curve = Curve::Make(EightRanks(), Line());
  ASSERT_TRUE(curve.ok());
  EXPECT_NEAR(curve->At(3 << 20).median, 10 + (3 << 20) / 1000.0, 0.06 * 3150);
  const Estimate above = curve->At(std::ldexp(1.0, 34));
  EXPECT_NEAR(above.median, 10 + std::ldexp(1.0, 34) / 1000, 1e-3 * above.median);
  EXPECT_FALSE(above.in_hull);
  const Estimate below = curve->At(8);
  EXPECT_NEAR(below.median, 10.008, 0.01);
  EXPECT_FALSE(below.in_hull);
  const Estimate at_end = curve->At(std::ldexp(1.0, 30));
  EXPECT_GT(above.high / above.median, at_end.high / at_end.median);
  EXPECT_EQ(curve->At(0).median, 0);
}

TEST(Curve, NeverFallsAsSizesGrowThoughMeasurementsDo) {
  auto points = Line(10, 20);
  points[4].micros = 5;  // faster than all smaller ones
  points[7].micros = 300;
  const auto curve = Curve::Make(EightRanks(), points);
  ASSERT_TRUE(curve.ok());
  double last = 0;
  for (double bytes = 1; bytes < 1 << 24; bytes *= 1.07) {
    const double now = curve->At(bytes).median;
    EXPECT_GE(now, last) << bytes;
    last = now;
  }
  EXPECT_EQ(curve->points()[4].micros, 5) << "what was measured is kept";
}

TEST(Curve, TakesTheMedianOfOneSizesTimes) {
  const auto curve =
      Curve::Make(EightRanks(), {{2048, 50}, {1024, 9}, {1024, 200}, {1024, 11}, {2048, 30}});
  ASSERT_TRUE(curve.ok());
  EXPECT_EQ(curve->points(), (std::vector<CurvePoint>{{1024, 11}, {2048, 40}}));
}

TEST(Curve, IsSurerWhereItsTimesAreSmooth) {
  auto points = Line(10, 30);
  for (size_t i = 0; i < 8; ++i) points[i].micros *= i % 2 == 0 ? 1.3 : 0.8;
  const auto curve = Curve::Make(EightRanks(), points);
  ASSERT_TRUE(curve.ok());
  const Estimate noisy = curve->At(3000), smooth = curve->At(3 << 27);
  EXPECT_GT(noisy.high / noisy.low, 1.5);
  EXPECT_LT(smooth.high / smooth.low, 1.1);
}

TEST(Curve, RefusesWhatIsNoMeasurement) {
  const double nan = std::nan("");
  for (const std::vector<CurvePoint>& points :
       std::vector<std::vector<CurvePoint>>{{},
                                            {{1024, 5}},
                                            {{1024, 5}, {1024, 6}},
                                            {{0, 5}, {8, 5}},
                                            {{8, 0}, {16, 5}},
                                            {{8, -1}, {16, 5}},
                                            {{8, nan}, {16, 5}},
                                            {{nan, 5}, {16, 5}},
                                            {{8, 1e300}, {16, 5}}}) {
    EXPECT_EQ(Curve::Make(EightRanks(), points).status().code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(Curve::Make({.ranks = 1}, Line()).ok());
  EXPECT_FALSE(Curve::Make({.ranks = 8, .nodes = 3}, Line()).ok());
  EXPECT_FALSE(Curve::Make({.ranks = 8, .nodes = 0}, Line()).ok());
  const auto status = Curve::Make(EightRanks(), {{1024, 5}}).status();
  EXPECT_EQ(status.message(), "test: all_reduce of 8 ranks: a curve needs two sizes at least");
}

TEST(AlphaBeta, FindsALineAndKeepsBothPartsAboveZero) {
  const AlphaBeta line = FitAlphaBeta(Line());
  EXPECT_NEAR(line.alpha_us, 10, 1e-6);
  EXPECT_NEAR(line.us_per_byte, 1e-3, 1e-9);
  const AlphaBeta falling = FitAlphaBeta(std::vector<CurvePoint>{{1000, 20}, {2000, 10}});
  EXPECT_EQ(falling.us_per_byte, 0);
  EXPECT_GT(falling.alpha_us, 0);
  const AlphaBeta steep = FitAlphaBeta(std::vector<CurvePoint>{{1000, 1}, {2000, 10}});
  EXPECT_EQ(steep.alpha_us, 0);
  EXPECT_GT(steep.us_per_byte, 0);
}

}  // namespace
}  // namespace ebb::perfmodel
