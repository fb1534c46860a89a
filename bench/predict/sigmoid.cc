#include "bench/predict/sigmoid.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace ebb::bench {

Sigmoid::Sigmoid(absl::Span<const perfmodel::CurvePoint> points, double factor) : factor_(factor) {
  std::vector<double> x, y;  // log2 of sizes, log10 of bandwidths
  for (const perfmodel::CurvePoint& point : points) {
    const double bandwidth = point.bytes * factor / point.micros;
    peak_ = std::max(peak_, bandwidth);
    x.push_back(std::log2(point.bytes));
    y.push_back(std::log10(bandwidth));
  }
  size_t first = 0;  // from there on a size takes a tenth longer than the one before
  while (first + 2 < points.size() && points[first + 1].micros <= 1.1 * points[first].micros) {
    ++first;
  }
  size_t last = 0;  // two sizes past 95 % of the peak
  while (points[last].bytes * factor / points[last].micros < 0.95 * peak_) ++last;
  last = std::min(last + 2, points.size() - 1);
  first_ = points[first].bytes;
  last_ = points[last].bytes;
  floor_us_ = points[first].micros;

  double best = std::numeric_limits<double>::infinity();
  const auto n = static_cast<double>(x.size());
  for (double steepness = 0.05; steepness <= 2; steepness *= 1.1) {
    for (double middle = x.front() - 10; middle <= x.back() + 10; middle += 0.25) {
      double s1 = 0, s2 = 0, y1 = 0, sy = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double s = 1 / (1 + std::exp(-steepness * (x[i] - middle)));
        s1 += s, s2 += s * s, y1 += y[i], sy += s * y[i];
      }
      const double spread = s2 - s1 * s1 / n;
      if (spread < 1e-12) continue;
      const double height = (sy - s1 * y1 / n) / spread, foot = (y1 - height * s1) / n;
      double error = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double s = 1 / (1 + std::exp(-steepness * (x[i] - middle)));
        error += std::pow(height * s + foot - y[i], 2);
      }
      if (error >= best) continue;
      best = error;
      height_ = height, steepness_ = steepness, middle_ = middle, foot_ = foot;
    }
  }
}

double Sigmoid::BusBandwidth(double bytes) const {
  const double s = 1 / (1 + std::exp(-steepness_ * (std::log2(bytes) - middle_)));
  return std::pow(10, height_ * s + foot_);
}

double Sigmoid::At(double bytes) const {
  if (bytes <= first_) return floor_us_;
  if (bytes <= last_) return bytes * factor_ / BusBandwidth(bytes);
  return floor_us_ + bytes * factor_ / peak_;
}

}  // namespace ebb::bench
