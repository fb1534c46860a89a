#include "perfmodel/reuse.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <random>
#include <unordered_map>

namespace ebb::perfmodel {
namespace {

using ::testing::Each;
using ::testing::Field;
using ::testing::Gt;

// Row k (from 0) in proportion to 1 / (k+1)^skew, scattered over the table.
std::vector<int64_t> Draw(int64_t rows, double skew, size_t count, uint64_t seed) {
  std::vector<double> sums(static_cast<size_t>(rows));
  double sum = 0;
  for (int64_t k = 0; k < rows; ++k) {
    sums[static_cast<size_t>(k)] = sum += std::pow(static_cast<double>(k + 1), -skew);
  }
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform(0, sum);
  std::vector<int64_t> drawn(count);
  for (int64_t& row : drawn) {
    row = std::lower_bound(sums.begin(), sums.end(), uniform(random)) - sums.begin();
    row = row * 7919 % rows;  // rows: no multiple of the prime
  }
  return drawn;
}

double Unique(const std::vector<int64_t>& rows) {
  std::vector<int64_t> sorted = rows;
  std::sort(sorted.begin(), sorted.end());
  return static_cast<double>(std::unique(sorted.begin(), sorted.end()) - sorted.begin());
}

// Of the second half, after the first has filled the cache.
double LruHits(const std::vector<int64_t>& rows, size_t capacity) {
  std::list<int64_t> order;
  std::unordered_map<int64_t, std::list<int64_t>::iterator> where;
  double hits = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto it = where.find(rows[i]);
    if (it != where.end()) {
      if (i >= rows.size() / 2) ++hits;
      order.erase(it->second);
    } else if (order.size() == capacity) {
      where.erase(order.back());
      order.pop_back();
    }
    order.push_front(rows[i]);
    where[rows[i]] = order.begin();
  }
  return hits / static_cast<double>(rows.size() - rows.size() / 2);
}

struct Case {
  int64_t rows;
  double skew;
};
class ReuseTest : public ::testing::TestWithParam<Case> {};

TEST_P(ReuseTest, TellsUniqueRowsAndHitsOfWhatIsDrawn) {
  const auto [rows, skew] = GetParam();
  const Popularity popularity = ZipfPopularity(rows, skew);
  EXPECT_NEAR(popularity.rows(), static_cast<double>(rows), 1e-6 * static_cast<double>(rows));
  const std::vector<int64_t> drawn = Draw(rows, skew, 200'000, 1);
  EXPECT_NEAR(ExpectedUnique(popularity, 200'000) / Unique(drawn), 1, 0.03);
  for (const size_t cached : {100u, 1000u, 5000u}) {
    EXPECT_NEAR(HitRate(popularity, static_cast<double>(cached)), LruHits(drawn, cached), 0.03)
        << cached;
  }
}

TEST_P(ReuseTest, ASketchOfTheStreamTellsTheSame) {
  const auto [rows, skew] = GetParam();
  ReuseSketch sketch;
  const std::vector<int64_t> drawn = Draw(rows, skew, 200'000, 2);
  for (size_t i = 0; i < drawn.size(); i += 1000) {
    sketch.Add(absl::MakeConstSpan(drawn).subspan(i, 1000));
  }
  EXPECT_EQ(sketch.look_ups(), 200'000);
  EXPECT_NEAR(sketch.distinct() / Unique(drawn), 1, 0.08);
  const Popularity popularity = sketch.popularity(rows);
  EXPECT_THAT(popularity.classes, Each(Field(&Popularity::Class::rows, Gt(0))));
  EXPECT_NEAR(ExpectedUnique(popularity, 20'000) / Unique({drawn.begin(), drawn.begin() + 20'000}),
              1, 0.1);
  for (const size_t cached : {100u, 1000u, 5000u}) {
    EXPECT_NEAR(HitRate(popularity, static_cast<double>(cached)), LruHits(drawn, cached), 0.05)
        << cached;
  }
}

INSTANTIATE_TEST_SUITE_P(Skews, ReuseTest,
                         ::testing::Values(Case{50'000, 0.0}, Case{50'000, 0.6}, Case{200'000, 0.9},
                                           Case{200'000, 1.05}, Case{1'000'000, 1.3}));

TEST(PagePopularityTest, FrequentRowsHavePagesOfTheirOwn) {
  const Popularity pages = PagePopularity(ZipfPopularity(100'000, 1.1), 16);
  EXPECT_NEAR(pages.rows(), 100'000 / 16.0, 1e-6);
  double share = 0;
  for (const Popularity::Class& one : pages.classes) share += one.share;
  EXPECT_NEAR(share, 1, 1e-9);
  // As drawn: rows scattered over pages.
  std::vector<int64_t> drawn = Draw(100'000, 1.1, 200'000, 1);
  for (int64_t& row : drawn) row /= 16;
  for (const size_t kept : {64u, 512u, 2048u}) {
    EXPECT_NEAR(HitRate(pages, static_cast<double>(kept)), LruHits(drawn, kept), 0.05) << kept;
  }
}

TEST(ReuseSketchTest, KnowsNothingAtFirstAndPassesOverNegativeRows) {
  ReuseSketch sketch;
  EXPECT_EQ(sketch.popularity(10).rows(), 10);
  sketch.Add(absl::Span<const int64_t>({-1, -5}));
  EXPECT_EQ(sketch.look_ups(), 0);
}

TEST(HitRateTest, IsMonotoneInTheCacheAndWholeWhereAllRowsFit) {
  const Popularity popularity = ZipfPopularity(10'000, 0.8);
  double last = 0;
  for (double cached = 1; cached < 10'000; cached *= 2) {
    const double rate = HitRate(popularity, cached);
    EXPECT_GE(rate, last);
    last = rate;
  }
  EXPECT_EQ(HitRate(popularity, 10'000), 1);
  EXPECT_EQ(HitRate(popularity, 0), 0);
  EXPECT_LT(HitRate(popularity, 1000, 0.5), HitRate(popularity, 1000));
  EXPECT_LT(HitRate(popularity, 10'000, 0.5), 1);  // what passes through pushes rows out
}

}  // namespace
}  // namespace ebb::perfmodel
