#include "perfmodel/reuse.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace ebb::perfmodel {
namespace {

constexpr double kHeavyShare = 1.0 / 32768;  // rows above it are classes of their own
constexpr int64_t kHeavyCount = 16;          // look-ups that tell how often a row comes
constexpr uint64_t kHoldEvery = 16;          // of the look-ups one is drawn, to be held

// splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
uint64_t Hash(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// The sum of 1/k^skew for k in [first, last].
double ZipfSum(double first, double last, double skew) {
  // Midpoint rule on [first - 1/2, last + 1/2], exact enough where members differ by a tenth.
  const double a = first - 0.5, b = last + 0.5;
  if (std::abs(skew - 1) < 1e-9) return std::log(b / a);
  return (std::pow(b, 1 - skew) - std::pow(a, 1 - skew)) / (1 - skew);
}

}  // namespace

double Popularity::rows() const {
  double all = 0;
  for (const Class& one : classes) all += one.rows;
  return all;
}

Popularity UniformPopularity(int64_t rows) {
  return {.classes = {{static_cast<double>(std::max<int64_t>(rows, 1)), 1}}};
}

Popularity ZipfPopularity(int64_t rows, double skew) {
  if (skew <= 0) return UniformPopularity(rows);
  Popularity popularity;
  double all = 0;
  for (double first = 1; first <= static_cast<double>(rows);) {
    const double last =
        std::min(static_cast<double>(rows), first < 100 ? first : std::floor(first * 1.1));
    const double sum = first == last ? std::pow(first, -skew) : ZipfSum(first, last, skew);
    popularity.classes.push_back({last - first + 1, sum});
    all += sum;
    first = last + 1;
  }
  for (Popularity::Class& one : popularity.classes) one.share /= all;
  return popularity;
}

double ExpectedUnique(const Popularity& popularity, double look_ups) {
  double unique = 0;
  for (const Popularity::Class& one : popularity.classes) {
    unique += one.rows * -std::expm1(-one.share / one.rows * look_ups);
  }
  return std::min(unique, look_ups);
}

double HitRate(const Popularity& popularity, double cached_rows, double streamed) {
  if (cached_rows <= 0) return 0;
  if (streamed <= 0 && cached_rows >= popularity.rows()) return 1;
  // The characteristic time: how many look-ups a row stays, found by bisection.
  const auto used = [&](double look_ups) {
    return ExpectedUnique(popularity, look_ups) + streamed * look_ups;
  };
  double low = 0, high = 1;
  while (used(high) < cached_rows && high < 1e18) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (used(middle) < cached_rows ? low : high) = middle;
  }
  double hits = 0;
  for (const Popularity::Class& one : popularity.classes) {
    hits += one.share * -std::expm1(-one.share / one.rows * high);
  }
  return std::clamp(hits, 0.0, 1.0);
}

Popularity PagePopularity(const Popularity& popularity, double rows_per_page) {
  const double pages = std::max(1.0, popularity.rows() / rows_per_page);
  std::vector<Popularity::Class> rows = popularity.classes;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return a.share * b.rows > b.share * a.rows;  // by share a row
  });
  Popularity result;
  double rest = 1, hot = 0;
  for (const Popularity::Class& one : rows) {
    if (one.share / one.rows <= rest / pages || hot + one.rows >= pages) break;
    rest -= one.share;
    hot += one.rows;
    result.classes.push_back(one);
  }
  const double others = rest / pages;  // of the other rows, on each page
  for (Popularity::Class& one : result.classes) one.share += one.rows * others;
  result.classes.push_back({pages - hot, (pages - hot) * others});
  return result;
}

void ReuseSketch::Add(absl::Span<const int64_t> indices) {
  for (const int64_t row : indices) AddOne(row);
}
void ReuseSketch::Add(absl::Span<const int32_t> indices) {
  for (const int32_t row : indices) AddOne(row);
}

void ReuseSketch::AddOne(int64_t row) {
  if (row < 0) return;
  if (const auto it = heavy_.find(row); it != heavy_.end()) {
    ++it->second.count;
  } else if (Hash(static_cast<uint64_t>(look_ups_) ^ 0x5bd1e995) % kHoldEvery == 0) {
    heavy_[row] = {.count = 1, .since = look_ups_};
    if (heavy_.size() > kHeavy) DropLightest();
  }
  ++look_ups_;
  if (Hash(static_cast<uint64_t>(row)) > threshold_) return;
  ++sampled_[row];
  while (sampled_.size() > kSampled) DropHalf();
}

void ReuseSketch::DropHalf() {
  threshold_ /= 2;
  absl::erase_if(sampled_, [this](const auto& entry) {
    return Hash(static_cast<uint64_t>(entry.first)) > threshold_;
  });
}

double ReuseSketch::ShareOf(const Held& held) const {
  return static_cast<double>(held.count) / static_cast<double>(look_ups_ - held.since + 1);
}

// The half that comes least often; of equals the greater rows, so that the result does not depend
// on the order of a table in memory.
void ReuseSketch::DropLightest() {
  std::vector<std::pair<double, int64_t>> shares;
  for (const auto& [row, held] : heavy_) shares.emplace_back(-ShareOf(held), row);
  std::sort(shares.begin(), shares.end());
  for (size_t i = kHeavy / 2; i < shares.size(); ++i) heavy_.erase(shares[i].second);
}

double ReuseSketch::distinct() const {
  const double rate = std::ldexp(static_cast<double>(threshold_), -64);
  return static_cast<double>(sampled_.size()) / rate;
}

Popularity ReuseSketch::popularity(int64_t table_rows) const {
  if (look_ups_ == 0) return UniformPopularity(table_rows);
  Popularity popularity;
  std::map<int64_t, double> alone;  // rows that are classes of their own
  double left = 1;
  for (const auto& [row, held] : heavy_) {
    const double share = ShareOf(held);
    if (held.count >= kHeavyCount && share >= kHeavyShare) alone[row] = share;
  }
  for (const auto& [row, share] : alone) left -= share;
  if (left < 0) left = 0;
  for (const auto& [row, share] : alone) popularity.classes.push_back({1, share});
  const double rate = std::ldexp(static_cast<double>(threshold_), -64);
  std::map<int, Popularity::Class> bins;  // by the logarithm of the count
  double counted = 0, once = 0;
  for (const auto& [row, count] : sampled_) {
    if (alone.contains(row)) continue;
    Popularity::Class& bin = bins[static_cast<int>(std::log2(static_cast<double>(count)) * 2)];
    bin.rows += 1 / rate;
    bin.share += static_cast<double>(count);
    counted += static_cast<double>(count);
    if (count == 1) ++once;
  }
  const double seen = distinct();
  const double unseen = std::max(0.0, static_cast<double>(table_rows) - seen);
  const double unseen_share = counted > 0 && unseen >= 1 ? once / counted * left : 0;
  for (auto& [log, bin] : bins) {
    bin.share *= (left - unseen_share) / counted;
    if (bin.share > 0) popularity.classes.push_back(bin);
  }
  if (unseen_share > 0) popularity.classes.push_back({unseen, unseen_share});
  double all = 0;
  for (const Popularity::Class& one : popularity.classes) all += one.share;
  for (Popularity::Class& one : popularity.classes) one.share /= all;
  return popularity;
}

}  // namespace ebb::perfmodel
