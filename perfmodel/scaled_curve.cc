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

absl::StatusOr<Curve> ByTopology(const Curve& curve, const Collective& asked,
                                 const Topology& topology) {
  const double bytes = BusFactor(curve.kind(), asked.ranks) / BusFactor(asked.kind, asked.ranks);
  // The stride that has the curve's ranks on as many nodes as they were on.
  const int64_t near = curve.ranks() / curve.nodes();
  Collective measured{curve.kind(), curve.ranks()};
  if (topology.NodesOf(curve.ranks()) != curve.nodes()) {
    measured.stride = std::max<int64_t>(topology.gpus_per_node / near, 1);
  }
  std::vector<CurvePoint> points;
  double last = 0;
  for (const CurvePoint& point : curve.points()) {
    const bool end = &point == &curve.points().back();
    if (point.bytes < kStep * last && !end) continue;
    last = point.bytes;
    measured.bytes = point.bytes;
    EBB_ASSIGN_OR_RETURN(const Transfer there, Transport(topology, measured));
    Collective scaled = asked;
    scaled.bytes = std::max(point.bytes * bytes, 1.0);
    EBB_ASSIGN_OR_RETURN(const Transfer here, Transport(topology, scaled));
    const double micros = curve.At(point.bytes).median * here.micros / there.micros;
    points.push_back({scaled.bytes, std::max(micros, LeastMicros(topology, scaled))});
  }
  // As many nodes as divide the ranks: the curve is for one prediction.
  return Curve::Make({asked.kind, asked.ranks, 1, curve.subject().source}, std::move(points));
}

}  // namespace ebb::perfmodel
