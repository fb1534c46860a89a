#include "perfmodel/op_law.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/philox.h"
#include "perfmodel/least_squares.h"

namespace ebb::perfmodel {
namespace {

constexpr size_t kNeighbour = 5;
constexpr size_t kFolds = 5;
constexpr size_t kLeast = 10;
constexpr size_t kLeastForTrees = 60;
constexpr double kGoodScatter = 0.05;
// How much wider, relatively, an interval is for each usual distance beyond the hull.
constexpr double kWidening = 0.15;
constexpr double kMostWidening = 3;

double Distance(absl::Span<const double> a, absl::Span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// To the n-th nearest (from 1) of the places, or the farthest.
double ToNeighbour(const std::vector<std::vector<double>>& places, absl::Span<const double> from,
                   size_t n) {
  std::vector<double> distances;
  distances.reserve(places.size());
  for (const auto& place : places) distances.push_back(Distance(place, from));
  const size_t at = std::min(n, distances.size()) - 1;
  std::nth_element(distances.begin(), distances.begin() + static_cast<std::ptrdiff_t>(at),
                   distances.end());
  return std::sqrt(distances[at]);
}

double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const double at = share * static_cast<double>(values.size() + 1) - 1;  // of one more to come
  const double within = std::clamp(at, 0.0, static_cast<double>(values.size() - 1));
  const auto low = static_cast<size_t>(within);
  const size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (within - static_cast<double>(low)) * (values[high] - values[low]);
}

Spread SpreadOf(const std::vector<double>& errors) {
  return {std::min(Quantile(errors, 0.1), 0.0), std::max(Quantile(errors, 0.9), 0.0)};
}

// The samples as the fits see them.
struct Table {
  std::vector<MeasuredWork> samples;
  std::vector<std::vector<double>> terms[2];
  std::vector<std::vector<double>> features;
  std::vector<double> floor;  // the roofline of each
  std::vector<size_t> fold;
};

// A base and what trees make of it.
struct Core {
  std::vector<double> coefficients;
  BoostedTrees residual;
};

double BaseOf(absl::Span<const double> terms, absl::Span<const double> x, double floor) {
  return std::max({Dot(terms, x), floor, 1e-3});
}

std::vector<size_t> FoldsOf(size_t count, uint64_t seed) {
  std::vector<size_t> order(count), fold(count);
  std::iota(order.begin(), order.end(), size_t{0});
  std::vector<uint32_t> key(count);
  for (size_t i = 0; i < count; ++i) {
    key[i] = Philox({static_cast<uint32_t>(i), 0, 0, 0}, PhiloxKeyFrom(seed))[0];
  }
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::make_pair(key[a], a) < std::make_pair(key[b], b);
  });
  for (size_t i = 0; i < count; ++i) fold[order[i]] = i % kFolds;
  return fold;
}

Table MakeTable(const Hardware& hardware, absl::Span<const MeasuredWork> samples, Rates* peak,
                uint64_t seed) {
  Table table;
  table.samples.assign(samples.begin(), samples.end());
  std::sort(table.samples.begin(), table.samples.end());
  *peak = PeakOf(samples[0].work, hardware);
  for (const MeasuredWork& one : table.samples) {
    peak->flops_per_us = std::max(peak->flops_per_us, one.work.flops / one.micros);
    peak->bytes_per_us = std::max(peak->bytes_per_us, one.work.bytes / one.micros);
  }
  for (const MeasuredWork& one : table.samples) {
    for (const Terms terms : {Terms::kShort, Terms::kLong}) {
      table.terms[static_cast<size_t>(terms)].push_back(TermsOf(one.work, hardware, terms));
    }
    table.features.push_back(FeaturesOf(one.work, hardware));
    table.floor.push_back(Roofline(one.work, *peak));
  }
  table.fold = FoldsOf(samples.size(), seed);
  return table;
}

// Fitted to all but one fold; `without` kFolds: to all.
Core FitCore(const Table& table, Terms terms, size_t without, bool trees) {
  const auto& all_terms = table.terms[static_cast<size_t>(terms)];
  std::vector<std::vector<double>> rows, features;
  std::vector<double> micros, floor;
  for (size_t i = 0; i < table.samples.size(); ++i) {
    if (table.fold[i] == without) continue;
    rows.push_back(all_terms[i]);
    micros.push_back(table.samples[i].micros);
    if (!trees) continue;
    features.push_back(table.features[i]);
    floor.push_back(table.floor[i]);
  }
  Core core{.coefficients = FitRelative(rows, micros)};
  if (!trees) return core;
  std::vector<double> left(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    left[i] = std::log(micros[i] / BaseOf(rows[i], core.coefficients, floor[i]));
  }
  TreeOptions options;
  options.least = rows.size() < 300 ? 4 : 5;
  core.residual = BoostedTrees::Fit(features, left, options);
  return core;
}

// log(measured / predicted) of every sample by a fit that did not see it.
struct LeftOut {
  std::vector<double> base, whole;
};
LeftOut CrossFit(const Table& table, Terms terms, bool trees) {
  LeftOut errors;
  const size_t count = table.samples.size();
  errors.base.resize(count), errors.whole.resize(count);
  for (size_t fold = 0; fold < kFolds; ++fold) {
    const Core core = FitCore(table, terms, fold, trees);
    for (size_t i = 0; i < count; ++i) {
      if (table.fold[i] != fold) continue;
      const double base =
          BaseOf(table.terms[static_cast<size_t>(terms)][i], core.coefficients, table.floor[i]);
      errors.base[i] = std::log(table.samples[i].micros / base);
      errors.whole[i] = errors.base[i] - core.residual.Predict(table.features[i]);
    }
  }
  return errors;
}

double MeanSize(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return sum / static_cast<double>(errors.size());
}

}  // namespace

Hull Hull::Of(std::vector<std::vector<double>> places) {
  Hull hull{.places = std::move(places)};
  std::vector<double> distances;
  for (const auto& place : hull.places) {
    distances.push_back(ToNeighbour(hull.places, place, kNeighbour + 1));  // itself is the first
  }
  hull.usual = std::max(Quantile(distances, 0.9), 0.05);
  return hull;
}

double Hull::Beyond(absl::Span<const double> place) const {
  return std::max(0.0, ToNeighbour(places, place, kNeighbour) / usual - 1);
}

absl::StatusOr<OpLaw> OpLaw::Fit(const Hardware& hardware, absl::Span<const MeasuredWork> samples,
                                 uint64_t seed) {
  if (samples.size() < kLeast) {
    return absl::InvalidArgumentError(absl::StrCat("a law needs at least ", kLeast,
                                                   " kernels of different sizes, there are ",
                                                   samples.size()));
  }
  OpLaw law{.samples = static_cast<int64_t>(samples.size())};
  const Table table = MakeTable(hardware, samples, &law.peak, seed);
  const bool trees = samples.size() >= kLeastForTrees;
  law.terms = Terms::kLong;
  if (!trees && MeanSize(CrossFit(table, Terms::kShort, false).base) <=
                    MeanSize(CrossFit(table, Terms::kLong, false).base)) {
    law.terms = Terms::kShort;  // few samples may not carry many terms
  }
  const LeftOut errors = CrossFit(table, law.terms, trees);
  law.scatter = MeanSize(errors.whole);
  law.with_residual = SpreadOf(errors.whole);
  law.base_alone = SpreadOf(errors.base);
  for (const double error : errors.whole) law.mape += std::abs(std::expm1(-error));
  law.mape *= 100 / static_cast<double>(samples.size());
  law.fade = (law.scatter / kGoodScatter) * (law.scatter / kGoodScatter);
  Core core = FitCore(table, law.terms, kFolds, trees);
  law.coefficients = std::move(core.coefficients);
  law.residual = std::move(core.residual);
  std::vector<std::vector<double>> places;
  for (const MeasuredWork& one : table.samples) places.push_back(PlaceOf(one.work));
  law.hull = Hull::Of(std::move(places));
  return law;
}

Estimate OpLaw::Predict(const Hardware& hardware, const Work& work) const {
  const double floor = Roofline(work, peak);
  const double beyond = hull.Beyond(PlaceOf(work));
  const double trust = std::exp(-fade * beyond);
  const double base = BaseOf(TermsOf(work, hardware, terms), coefficients, floor);
  const double median =
      std::max(floor, base * std::exp(trust * residual.Predict(FeaturesOf(work, hardware))));
  const double wider = 1 + std::min(kWidening * beyond, kMostWidening);
  const double low = wider * (trust * with_residual.low + (1 - trust) * base_alone.low);
  const double high = wider * (trust * with_residual.high + (1 - trust) * base_alone.high);
  return {.median = median,
          .low = std::max(floor, median * std::exp(low)),
          .high = median * std::exp(high),
          .in_hull = beyond == 0};
}

}  // namespace ebb::perfmodel
