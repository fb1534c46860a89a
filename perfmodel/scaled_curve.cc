#include "perfmodel/scaled_curve.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/status.h"

namespace ebb::perfmodel {
namespace {

constexpr double kFromRatio = 1.25;
constexpr double kStep = 1.2;  // from one size to the next: a topology's laws are smoother

}  // namespace

absl::StatusOr<Curve> LineThrough(const Curve& a, const Curve& b, int64_t ranks) {
  const double volume = BusFactor(a.kind(), ranks), of_a = BusFactor(a.kind(), a.ranks()),
               of_b = BusFactor(b.kind(), b.ranks());
  const double step = of_a == of_b ? 0 : (volume - of_a) / (of_b - of_a);
  std::vector<CurvePoint> points;
  for (const CurvePoint& point : a.points()) {
    const double ratio = volume / of_a * point.micros;
    double line = point.micros + step * (b.At(point.bytes).median - point.micros);
    if (step < 0 || step > 1) line = std::clamp(line, ratio / kFromRatio, ratio * kFromRatio);
    points.push_back({point.bytes, line});
  }
  return Curve::Make({a.kind(), ranks, a.nodes(), a.subject().source}, std::move(points));
}

absl::StatusOr<Curve> ByTopology(const Curve& curve, CollectiveKind kind, int64_t ranks,
                                 const Topology& topology) {
  const double bytes = BusFactor(curve.kind(), ranks) / BusFactor(kind, ranks);
  std::vector<CurvePoint> points;
  double last = 0;
  for (const CurvePoint& point : curve.points()) {
    const bool end = &point == &curve.points().back();
    if (point.bytes < kStep * last && !end) continue;
    last = point.bytes;
    EBB_ASSIGN_OR_RETURN(const Transfer there,
                         Transport(topology, {curve.kind(), curve.ranks(), point.bytes}));
    const Collective asked{kind, ranks, std::max(point.bytes * bytes, 1.0)};
    EBB_ASSIGN_OR_RETURN(const Transfer here, Transport(topology, asked));
    const double micros = curve.At(point.bytes).median * here.micros / there.micros;
    points.push_back({asked.bytes, std::max(micros, LeastMicros(topology, asked))});
  }
  // As many nodes as divide the ranks: the curve is for one prediction.
  return Curve::Make({kind, ranks, 1, curve.subject().source}, std::move(points));
}

}  // namespace ebb::perfmodel
