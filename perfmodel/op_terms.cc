#include "perfmodel/op_terms.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

namespace ebb::perfmodel {
namespace {

constexpr std::pair<double, double> kTiles[] = {{128, 128}, {128, 64}, {64, 64}, {32, 32}};
// Of a kernel that does nothing.
constexpr double kLaunchUs = 3;
constexpr double kReachable = 0.75;

double D(int64_t value) { return static_cast<double>(value); }
double Log(int64_t value) { return std::log(D(std::max<int64_t>(value, 1))); }
int64_t Alignment(int64_t value) { return value > 0 ? std::gcd(value, int64_t{64}) : 64; }

// Products that a multiprocessor works on at once; a recurrence's follow one another.
double Together(const Work& work) {
  return work.family == Family::kRecurrent ? 1 : D(std::max<int64_t>(work.batch, 1));
}
double OneAfterAnother(const Work& work) {
  return work.family == Family::kRecurrent ? D(std::max<int64_t>(work.batch, 1)) : 1;
}

double Waves(const Work& work, const Hardware& hardware, double tall, double wide) {
  const double tiles = Together(work) * std::ceil(D(work.m) / tall) * std::ceil(D(work.n) / wide);
  return std::ceil(tiles / hardware.multiprocessors);
}

void AppendProductTerms(const Work& work, const Hardware& hardware, const Rates& peak,
                        std::vector<double>* terms) {
  const double a = D(work.m) * D(work.k), b = D(work.k) * D(work.n), y = D(work.m) * D(work.n);
  const double bytes = work.bytes / std::max(a + b + y, 1.0) / peak.bytes_per_us;
  for (const double part : {a, b, y}) terms->push_back(part * bytes);
  const double steps = OneAfterAnother(work);
  const double size = D(SizeOf(work.dtype).count());
  for (const auto& [tall, wide] : kTiles) {
    const double waves = Waves(work, hardware, tall, wide) * steps * hardware.multiprocessors;
    terms->push_back(waves * tall * wide * 2 * D(work.k) / peak.flops_per_us);
    terms->push_back(waves * tall * wide * size / peak.bytes_per_us);
  }
  if (work.family == Family::kRecurrent) terms->push_back(steps);
}

}  // namespace

Rates PeakOf(const Work& work, const Hardware& hardware) {
  return {IsProduct(work.family) ? hardware.product_flops_per_us(work.dtype)
                                 : hardware.vector_flops_per_us(),
          hardware.bytes_per_us()};
}

double Roofline(const Work& work, const Rates& peak) {
  return std::max(work.flops / peak.flops_per_us, work.bytes / peak.bytes_per_us);
}

std::vector<double> TermsOf(const Work& work, const Hardware& hardware, Terms terms) {
  const Rates peak = PeakOf(work, hardware);
  std::vector<double> row = {1, work.flops / peak.flops_per_us};
  if (terms == Terms::kShort) {
    row.push_back(work.bytes / peak.bytes_per_us);
  } else if (IsProduct(work.family)) {
    AppendProductTerms(work, hardware, peak, &row);
  } else {
    row.push_back(work.bytes / peak.bytes_per_us);
    const double cache = hardware.l2_mib * (1 << 20);
    row.push_back(std::max(0.0, work.bytes - cache) / peak.bytes_per_us);
    row.push_back(std::ceil(D(work.m) / hardware.multiprocessors) * 1e-3);
  }
  return row;
}

std::vector<double> FeaturesOf(const Work& work, const Hardware& hardware) {
  const double flops = std::max(work.flops, 1.0), bytes = std::max(work.bytes, 1.0);
  std::vector<double> row = {Log(work.batch),      Log(work.m),          Log(work.n),
                             Log(work.k),          Log(work.window),     Log(work.stride),
                             std::log(flops),      std::log(bytes),      std::log(flops / bytes),
                             D(Alignment(work.m)), D(Alignment(work.n)), D(Alignment(work.k))};
  for (const double tile : {32.0, 64.0, 128.0}) {
    const double tall = std::max(D(work.m), 1.0), wide = std::max(D(work.n), 1.0);
    const double tiles = Together(work) * std::ceil(tall / tile) * std::ceil(wide / tile);
    const double waves = tiles / hardware.multiprocessors;
    row.push_back(std::ceil(waves) / waves);
    row.push_back(std::log(waves));
    row.push_back(std::ceil(tall / tile) * tile / tall * std::ceil(wide / tile) * tile / wide);
  }
  return row;
}

std::vector<double> PlaceOf(const Work& work) {
  std::vector<double> place = {Log(work.batch), Log(work.m),      Log(work.n),
                               Log(work.k),     Log(work.window), Log(work.stride)};
  if (!IsProduct(work.family)) {  // unary and binary maps of equal size differ in bytes
    place.push_back(std::log(std::max(work.bytes, 1.0)));
    place.push_back(0.5 * std::log2(D(Alignment(work.n))));
    return place;
  }
  for (const int64_t size : {work.m, work.n, work.k}) {
    place.push_back(0.5 * std::log2(D(Alignment(size))));
  }
  return place;
}

double DataSheetTime(const Work& work, const Hardware& hardware) {
  const Rates peak = PeakOf(work, hardware);
  double arithmetic = work.flops / peak.flops_per_us;
  if (IsProduct(work.family)) {
    const double small = Waves(work, hardware, 64, 64) * hardware.multiprocessors * 64 * 64 * 2 *
                         D(work.k) * OneAfterAnother(work) / peak.flops_per_us;
    arithmetic = std::max(arithmetic, std::min(small, 4 * arithmetic));
  }
  return kLaunchUs * OneAfterAnother(work) +
         std::max(arithmetic, work.bytes / peak.bytes_per_us) / kReachable;
}

}  // namespace ebb::perfmodel
