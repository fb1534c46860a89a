#include "runtime/batch_search.h"

#include <algorithm>
#include <cmath>

namespace ebb::runtime {
namespace {

struct Point {
  int64_t batch = 0;
  std::optional<Bytes> bytes;
};

// Where the line through two points reaches the limit.
std::optional<double> Crossing(const Point& a, const Point& b, Bytes limit) {
  if (!a.bytes || !b.bytes || *a.bytes >= *b.bytes) return std::nullopt;
  const double slope =
      static_cast<double>((*b.bytes - *a.bytes).count()) / static_cast<double>(b.batch - a.batch);
  return static_cast<double>(a.batch) + static_cast<double>((limit - *a.bytes).count()) / slope;
}

}  // namespace

int64_t LargestBatch(int64_t most, Bytes limit, const std::function<BatchTrial(int64_t)>& attempt) {
  if (most < 1) return 0;
  const BatchTrial one = attempt(1);
  if (!one.fits) return 0;
  Point before, fits = {1, one.bytes}, too_large = {most + 1, std::nullopt};
  int streak = 0;  // attempts in a row that moved the same end, positive: `fits`
  while (too_large.batch - fits.batch > 1) {
    std::optional<double> guess;
    if (std::abs(streak) < 2) {  // on a curve one end would creep
      guess = Crossing(fits, too_large, limit);
      if (!guess && before.batch > 0) guess = Crossing(before, fits, limit);
    }
    // Without a line: by sixteens upwards, else by the middle.
    const double beyond =
        std::min(static_cast<double>(fits.batch) * 16, static_cast<double>(too_large.batch - 1));
    const bool open = too_large.batch == most + 1;
    const double low = static_cast<double>(fits.batch);
    const double high = static_cast<double>(too_large.batch);
    const double middle = high > 4 * low ? std::sqrt(low * high) : 0.5 * (low + high);
    const int64_t batch =
        std::clamp(static_cast<int64_t>(std::min(guess.value_or(open ? beyond : middle), 1e15)),
                   fits.batch + 1, too_large.batch - 1);
    const BatchTrial trial = attempt(batch);
    if (trial.fits != (streak > 0) || std::abs(streak) >= 2) streak = 0;
    streak += trial.fits ? 1 : -1;
    if (trial.fits) {
      before = fits;
      fits = {batch, trial.bytes};
    } else {
      too_large = {batch, trial.bytes};
    }
  }
  return fits.batch;
}

}  // namespace ebb::runtime
