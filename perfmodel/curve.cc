#include "perfmodel/curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/quantile.h"

namespace ebb::perfmodel {
namespace {

constexpr double kMost = 1e15;  // bytes or microseconds
constexpr double kLeastMicros = 1e-3;
constexpr double kEnd = 16;  // an end's line goes through sizes within this of the end
constexpr size_t kNear = 5;  // residuals that an interval is made of
constexpr double kLeastSpread = 0.01;
constexpr double kUnknownSpread = 0.25;  // of two sizes alone
constexpr double kOutsideSpread = 0.05;  // more for each doubling beyond the ends

absl::Status Fault(const Curve::Subject& subject, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(subject.source, subject.source.empty() ? "" : ": ",
                                                 Name(subject.kind), " of ", subject.ranks,
                                                 " ranks: ", what));
}

// Sorted by size, each once, with the median of its times.
std::vector<CurvePoint> Merged(std::vector<CurvePoint> points) {
  std::stable_sort(points.begin(), points.end(),
                   [](const CurvePoint& a, const CurvePoint& b) { return a.bytes < b.bytes; });
  std::vector<CurvePoint> merged;
  for (size_t begin = 0; begin < points.size();) {
    std::vector<double> times;
    size_t end = begin;
    for (; end < points.size() && points[end].bytes == points[begin].bytes; ++end) {
      times.push_back(points[end].micros);
    }
    merged.push_back({points[begin].bytes, MedianOf(std::move(times))});
    begin = end;
  }
  return merged;
}

// The nearest values that never fall (pool adjacent violators, least squares).
std::vector<double> NeverFalling(absl::Span<const double> values) {
  struct Pool {
    double sum;
    size_t count;
    double mean() const { return sum / static_cast<double>(count); }
  };
  std::vector<Pool> pools;
  for (const double value : values) {
    pools.push_back({value, 1});
    while (pools.size() > 1 && pools[pools.size() - 2].mean() > pools.back().mean()) {
      const Pool last = pools.back();
      pools.pop_back();
      pools.back().sum += last.sum;
      pools.back().count += last.count;
    }
  }
  std::vector<double> result;
  for (const Pool& pool : pools) result.insert(result.end(), pool.count, pool.mean());
  return result;
}

double Between(double x, double x0, double y0, double x1, double y1) {
  return y0 + (x - x0) / (x1 - x0) * (y1 - y0);
}

}  // namespace

AlphaBeta FitAlphaBeta(absl::Span<const CurvePoint> points) {
  // Of (a + b x) / t - 1: with u = 1/t and v = x/t the normal equations of a u + b v = 1.
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  for (const CurvePoint& point : points) {
    const double u = 1 / point.micros, v = point.bytes / point.micros;
    uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
  }
  if (points.empty()) return {};
  const double determinant = uu * vv - uv * uv;
  if (determinant > 1e-12 * uu * vv) {
    const double alpha = (u1 * vv - v1 * uv) / determinant;
    const double beta = (v1 * uu - u1 * uv) / determinant;
    if (alpha >= 0 && beta >= 0) return {alpha, beta};
  }
  // On the border, the better of the two: the error falls by u1^2/uu or v1^2/vv.
  if (u1 * u1 / uu > v1 * v1 / vv) return {u1 / uu, 0};
  return {0, v1 / vv};
}

absl::StatusOr<Curve> Curve::Make(Subject subject, std::vector<CurvePoint> points) {
  if (subject.ranks < 2 || subject.ranks > kMaxRanks) {
    return Fault(subject, absl::StrCat("a curve is of 2 to ", kMaxRanks, " ranks"));
  }
  if (subject.nodes < 1 || subject.ranks % subject.nodes != 0) {
    return Fault(subject, absl::StrCat(subject.nodes, " nodes do not divide them"));
  }
  if (points.size() > kMaxPoints) {
    return Fault(subject, absl::StrCat(points.size(), " measurements; at most ", kMaxPoints));
  }
  for (const CurvePoint& point : points) {
    if (!(point.bytes >= 1 && point.bytes <= kMost && point.micros >= kLeastMicros &&
          point.micros <= kMost)) {
      return Fault(subject,
                   absl::StrCat(point.bytes, " bytes in ", point.micros, " us: out of range (1 to ",
                                kMost, " bytes, ", kLeastMicros, " to ", kMost, " us)"));
    }
  }
  Curve curve;
  curve.subject_ = std::move(subject);
  curve.points_ = Merged(std::move(points));
  const std::vector<CurvePoint>& all = curve.points_;
  if (all.size() < 2) return Fault(curve.subject_, "a curve needs two sizes at least");

  std::vector<double> logs;
  for (const CurvePoint& point : all) {
    curve.log_bytes_.push_back(std::log(point.bytes));
    logs.push_back(std::log(point.micros));
  }
  curve.log_micros_ = NeverFalling(logs);
  for (size_t i = 1; i + 1 < all.size(); ++i) {
    const std::vector<double>& x = curve.log_bytes_;
    curve.residuals_.push_back(
        std::abs(logs[i] - Between(x[i], x[i - 1], logs[i - 1], x[i + 1], logs[i + 1])));
  }
  const auto first = std::find_if(all.begin(), all.end(), [&](const CurvePoint& point) {
    return point.bytes * kEnd >= all.back().bytes;
  });
  const auto last = std::find_if(all.begin(), all.end(), [&](const CurvePoint& point) {
    return point.bytes > all.front().bytes * kEnd;
  });
  curve.small_ = FitAlphaBeta({all.data(), static_cast<size_t>(last - all.begin())});
  curve.large_ = FitAlphaBeta({&*first, static_cast<size_t>(all.end() - first)});
  return curve;
}

double Curve::Median(double bytes) const {
  // An end's line, moved so that it meets the curve.
  if (bytes < points_.front().bytes) {
    return std::exp(log_micros_.front()) * (small_.At(bytes) / small_.At(points_.front().bytes));
  }
  if (bytes > points_.back().bytes) {
    return std::exp(log_micros_.back()) * (large_.At(bytes) / large_.At(points_.back().bytes));
  }
  const double x = std::log(bytes);
  const auto above = std::upper_bound(log_bytes_.begin() + 1, log_bytes_.end() - 1, x);
  const auto i = static_cast<size_t>(above - log_bytes_.begin());
  return std::exp(Between(x, log_bytes_[i - 1], log_micros_[i - 1], log_bytes_[i], log_micros_[i]));
}

double Curve::SpreadAt(double bytes) const {
  double spread = kUnknownSpread;
  if (!residuals_.empty()) {
    // The residuals about that size: residual i is of point i + 1.
    const auto at = std::lower_bound(log_bytes_.begin(), log_bytes_.end(), std::log(bytes));
    const auto middle = static_cast<ptrdiff_t>(at - log_bytes_.begin()) - 1;
    const auto count = static_cast<ptrdiff_t>(std::min(kNear, residuals_.size()));
    const auto begin = std::clamp<ptrdiff_t>(middle - count / 2, 0,
                                             static_cast<ptrdiff_t>(residuals_.size()) - count);
    std::vector<double> near(residuals_.begin() + begin, residuals_.begin() + begin + count);
    std::sort(near.begin(), near.end());
    const auto rank = static_cast<ptrdiff_t>(std::ceil(0.8 * static_cast<double>(count)));
    spread = std::max(near[static_cast<size_t>(rank - 1)], kLeastSpread);
    if (residuals_.size() < kNear) spread = std::max(spread, kUnknownSpread);
  }
  const double beyond =
      std::max(std::log2(points_.front().bytes / bytes), std::log2(bytes / points_.back().bytes));
  return std::exp(spread + kOutsideSpread * std::max(beyond, 0.0));
}

Estimate Curve::At(double bytes) const {
  if (!(bytes > 0)) return {.source = "nothing to send"};
  const double median = Median(bytes), spread = SpreadAt(bytes);
  const bool inside = points_.front().bytes <= bytes && bytes <= points_.back().bytes;
  return {.median = median,
          .low = median / spread,
          .high = median * spread,
          .in_hull = inside,
          .source = absl::StrCat("measured: ", Name(kind()), " of ", ranks(), " ranks, ",
                                 points_.size(), inside ? " sizes" : " sizes, beyond them")};
}

}  // namespace ebb::perfmodel
