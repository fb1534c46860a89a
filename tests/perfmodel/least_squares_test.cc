#include "perfmodel/least_squares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace ebb::perfmodel {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ge;

using Rows = std::vector<std::vector<double>>;

double Error(const Rows& a, const std::vector<double>& y, const std::vector<double>& x) {
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i) error += std::pow(Dot(a[i], x) / y[i] - 1, 2);
  return error;
}

TEST(LeastSquaresTest, FindsWhatTimesWereMadeOf) {
  Rows a;
  std::vector<double> y;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> draw(0, 1);
  for (int i = 0; i < 40; ++i) {
    a.push_back({1, 1e9 * draw(random), 1e-3 * draw(random), draw(random)});
    y.push_back(5 * a.back()[0] + 2e-8 * a.back()[1] + 3e4 * a.back()[2]);
  }
  EXPECT_THAT(FitRelative(a, y), ElementsAre(DoubleNear(5, 1e-6), DoubleNear(2e-8, 1e-14),
                                             DoubleNear(3e4, 1e-2), DoubleNear(0, 1e-6)));
}

TEST(LeastSquaresTest, TermsThatWouldBeNegativeAreLeftOut) {
  const Rows a = {{1, 1}, {1, 2}, {1, 3}, {1, 4}};
  const std::vector<double> y = {4, 3, 2, 1};
  const std::vector<double> one(4, 1);
  EXPECT_THAT(NonNegativeLeastSquares(a, y, one), ElementsAre(DoubleNear(2.5, 1e-9), 0));
}

TEST(LeastSquaresTest, TermsThatDependOnEachOtherDoNotMatter) {
  const Rows a = {{1, 2, 2, 0}, {1, 4, 4, 0}, {1, 6, 6, 0}};
  const std::vector<double> y = {3, 5, 7};
  const std::vector<double> x = FitRelative(a, y);
  EXPECT_NEAR(Error(a, y, x), 0, 1e-12);
  EXPECT_EQ(x[3], 0);
}

// No other non-negative coefficients are better: checked by small moves along every axis and pair.
TEST(LeastSquaresTest, IsTheBestOfAllNonNegativeOnes) {
  for (unsigned seed = 1; seed <= 50; ++seed) {
    std::mt19937 random(seed);
    std::normal_distribution<double> draw;
    Rows a(12, std::vector<double>(6));
    std::vector<double> y(12);
    for (auto& row : a) {
      for (double& term : row) term = std::exp(draw(random));
    }
    for (double& one : y) one = std::exp(draw(random));
    const std::vector<double> x = FitRelative(a, y);
    EXPECT_THAT(x, Each(Ge(0)));
    const double best = Error(a, y, x);
    for (size_t i = 0; i < 6; ++i) {
      for (const double move : {1e-3, -1e-3}) {
        std::vector<double> other = x;
        other[i] = std::max(0.0, other[i] + move);
        EXPECT_GE(Error(a, y, other), best - 1e-12) << "seed " << seed << " term " << i;
      }
    }
  }
}

}  // namespace
}  // namespace ebb::perfmodel
