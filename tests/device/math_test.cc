// Arithmetic that kernels of several devices share.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "device/cuda/softmax.h"
#include "device/math/divisor.h"
#include "device/math/sums.h"

namespace ebb::device {
namespace {

TEST(Divisor, DividesAsDivisionDoes) {
  std::mt19937_64 random(7);
  std::vector<int64_t> numbers = {1, 2, 3, 5, 7, 8, 255, 256, 641, 1000003};
  for (int bits = 31; bits < 62; bits += 6) {
    for (const int64_t off : {-1, 0, 1}) numbers.push_back((int64_t{1} << bits) + off);
  }
  for (int i = 0; i < 200; ++i) {
    numbers.push_back(static_cast<int64_t>(random() >> (2 + i % 60)) + 1);
  }
  for (const int64_t d : numbers) {
    const Divisor divisor = d;
    for (int64_t n : numbers) {
      for (const int64_t off : {-1, 0, 1}) {
        ASSERT_EQ((n + off) / divisor, (n + off) / d) << n + off << " / " << d;
        ASSERT_EQ((n + off) % divisor, (n + off) % d) << n + off << " % " << d;
      }
      // Next to a multiple, where a rounded reciprocal would be wrong first.
      if (n > std::numeric_limits<int64_t>::max() / d - 1) continue;
      for (const int64_t off : {-1, 0, 1}) {
        ASSERT_EQ((n * d + off) / divisor, (n * d + off) / d) << n << " * " << d << " + " << off;
      }
    }
  }
  EXPECT_EQ(Divisor(), 1);
}

TEST(FloatSum, KeepsWhatAFloatWouldLose) {
  math::FloatSum sum{0, 0}, joined{0, 0};
  double exact = 0;
  for (int i = 0; i < 1000000; ++i) {
    const float x = 0.1f + static_cast<float>(i % 7) * 1e3f;
    sum.Add(x);
    exact += static_cast<double>(x);
  }
  EXPECT_NEAR(sum.Wide() / exact, 1, 2e-8);
  for (int i = 0; i < 4; ++i) joined.Join(sum);
  EXPECT_NEAR(joined.Wide() / exact, 4, 1e-7);
  // Each 1 is below the half of a float's step there, which is 8.
  math::FloatSum cancelled{0, 0};
  cancelled.Add(1e8f);
  for (int i = 0; i < 1000; ++i) cancelled.Add(1);
  cancelled.Add(-1e8f);
  EXPECT_NEAR(cancelled.Total(), 1000, 8);
}

TEST(FloatSum, PassesOnWhatIsNoNumber) {
  math::FloatSum infinite{1, 0};
  infinite.Add(-INFINITY);
  infinite.Add(5);
  EXPECT_EQ(infinite.Total(), -INFINITY);
  EXPECT_EQ(infinite.Wide(), -INFINITY);
  infinite.Add(INFINITY);
  EXPECT_TRUE(std::isnan(infinite.Total()));
}

// A million numbers around 1000 that deviate by 0.01: a sum of squares of floats has nothing left.
TEST(Moments, FindASmallDeviationAroundALargeMean) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(1000, 0.01f);
  math::Moments all = math::Moments::None();
  double sum = 0, squares = 0;
  std::vector<float> values;
  for (int part = 0; part < 1000; ++part) {
    math::Moments lane = math::Moments::None();
    for (int i = 0; i < 1000; ++i) {
      values.push_back(normal(random));
      lane.Add(values.back());
      sum += static_cast<double>(values.back());
    }
    all.Join(lane);
  }
  all.Join(math::Moments::None());
  const double mean = sum / static_cast<double>(values.size());
  for (const float x : values)
    squares += (static_cast<double>(x) - mean) * (static_cast<double>(x) - mean);
  EXPECT_NEAR(static_cast<double>(all.Variance()) * 1e6 / squares, 1, 1e-4);
  EXPECT_EQ(all.Mean(), static_cast<float>(mean));
}

TEST(ExpSum, IsThatOfTwoPasses) {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-40, 40);
  cuda::ExpSum left = cuda::ExpSum::None(), right = cuda::ExpSum::None();
  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 50 == 0 ? -INFINITY : uniform(random);
    (i % 3 == 0 ? left : right).Add(values[i]);
  }
  left.Join(right);
  left.Join(cuda::ExpSum::None());
  double sum = 0;
  for (const float x : values) sum += std::exp(static_cast<double>(x - left.max));
  EXPECT_NEAR(static_cast<double>(left.sum) / sum, 1, 1e-5);
}

TEST(ExpSum, OfNothingAndOfWhatIsNoNumber) {
  cuda::ExpSum none = cuda::ExpSum::None();
  none.Add(-INFINITY);
  none.Join(cuda::ExpSum::None());
  EXPECT_EQ(none.max, -INFINITY);
  EXPECT_EQ(none.sum, 0);
  for (const float bad : {NAN, INFINITY}) {
    cuda::ExpSum sum = cuda::ExpSum::None();
    for (const float x : {1.0f, bad, 2.0f}) sum.Add(x);
    sum.Join(none);
    EXPECT_TRUE(std::isnan(sum.sum)) << bad;
  }
}

}  // namespace
}  // namespace ebb::device
