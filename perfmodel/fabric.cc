#include "perfmodel/fabric.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

// Factors by which an interval widens each way, on top of its curve's.
constexpr double kOtherRanks = 1.15;    // the same kind and a switched fabric
constexpr double kUnknownFabric = 1.5;  // no topology says that it is switched
constexpr double kMesh = 3;             // a mesh's rate depends on which GPUs
constexpr double kAcrossNodes = 1.5;
constexpr double kOtherKind = 1.3;
constexpr double kTopology = 1.6;         // data sheets alone, within a node
constexpr double kTopologyNetwork = 2.0;  // and across nodes

Estimate Widened(Estimate estimate, double factor) {
  estimate.low /= factor;
  estimate.high *= factor;
  estimate.in_hull = false;
  return estimate;
}

Estimate Times(Estimate estimate, double factor) {
  estimate.median *= factor;
  estimate.low *= factor;
  estimate.high *= factor;
  return estimate;
}

constexpr double kFromRatio = 1.25;  // how far a line beyond two curves may go from the ratio

double Distance(const Curve& curve, int64_t ranks) {
  return std::abs(std::log(static_cast<double>(curve.ranks()) / static_cast<double>(ranks)));
}

// Each time on the line through those of both curves over the bytes that a link carries.
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

bool Amount(double bytes) { return bytes >= 0 && std::isfinite(bytes); }

absl::Status CheckCollective(const Collective& what) {
  const auto fault = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(Name(what.kind), ": ", why));
  };
  if (what.ranks < 1 || what.ranks > Curve::kMaxRanks) {
    return fault(absl::StrCat(what.ranks, " ranks; there must be 1 to ", Curve::kMaxRanks));
  }
  if (!Amount(what.bytes)) return fault("bytes must be finite and not below 0");
  if (what.sends.empty()) return absl::OkStatus();
  if (what.kind != CollectiveKind::kAllToAll) return fault("only all_to_all has `sends`");
  const auto n = static_cast<size_t>(what.ranks);
  if (what.sends.size() != n) return fault("`sends` needs a row for each rank");
  for (const std::vector<double>& row : what.sends) {
    if (row.size() != n) return fault("`sends` needs a column for each rank");
    if (!std::all_of(row.begin(), row.end(), Amount)) {
      return fault("`sends` must be finite and not below 0");
    }
  }
  return absl::OkStatus();
}

// The same with equal shares: the rank that sends or receives most decides. What a rank sends to
// itself stays where it is.
Collective WithEqualShares(const Collective& what) {
  if (what.sends.empty()) return what;
  double most = 0;
  for (size_t i = 0; i < what.sends.size(); ++i) {
    double sent = 0, received = 0;
    for (size_t j = 0; j < what.sends.size(); ++j) {
      if (i == j) continue;
      sent += what.sends[i][j];
      received += what.sends[j][i];
    }
    most = std::max({most, sent, received});
  }
  const double factor = BusFactor(what.kind, what.ranks);
  return {what.kind, what.ranks, factor > 0 ? most / factor : 0};
}

auto Order(const Curve& curve) {
  return std::make_tuple(curve.kind(), curve.ranks(), curve.nodes());
}

}  // namespace

absl::StatusOr<Fabric> Fabric::Make(std::string name, std::vector<Curve> curves,
                                    std::optional<Topology> topology) {
  if (curves.empty() && !topology.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("fabric ", name, " has neither curves nor a topology"));
  }
  if (topology.has_value()) {
    EBB_RETURN_IF_ERROR(Annotate(CheckTopology(*topology), absl::StrCat("topology of ", name)));
  }
  std::stable_sort(curves.begin(), curves.end(),
                   [](const Curve& a, const Curve& b) { return Order(a) < Order(b); });
  for (size_t i = 0; i < curves.size(); ++i) {
    const Curve::Subject& a = curves[i].subject();
    for (size_t j = i + 1; j < curves.size(); ++j) {
      const Curve::Subject& b = curves[j].subject();
      const auto fault = [&](absl::string_view why) {
        return absl::InvalidArgumentError(absl::StrCat(
            "fabric ", name, ": ", b.source, b.source.empty() ? "" : ": ", Name(b.kind), " of ",
            b.ranks, " ranks on ", b.nodes, " nodes ", why, a.source.empty() ? "" : " ", a.source));
      };
      if (Order(curves[i]) == Order(curves[j])) return fault("is there already, from");
      if (curves[i].SameMeasurement(curves[j])) {
        return fault(absl::StrCat("repeats time for time those of ", Name(a.kind), " of ", a.ranks,
                                  " ranks: one of them is a copy, from"));
      }
    }
  }
  Fabric fabric;
  fabric.name_ = std::move(name);
  fabric.curves_ = std::move(curves);
  fabric.topology_ = topology;
  return fabric;
}

const Curve* Fabric::Measured(CollectiveKind kind, int64_t ranks) const {
  const Curve* found = nullptr;
  for (const Curve& curve : curves_) {
    if (curve.kind() != kind || curve.ranks() != ranks) continue;
    if (found == nullptr) found = &curve;  // the fewest nodes come first
    if (topology_.has_value() && curve.nodes() == topology_->NodesOf(ranks)) return &curve;
  }
  return found;
}

const Curve* Fabric::Nearest(CollectiveKind kind, int64_t ranks) const {
  const Curve* found = nullptr;
  for (const Curve& curve : curves_) {
    if (curve.kind() != kind) continue;
    if (found == nullptr || Distance(curve, ranks) < Distance(*found, ranks)) found = &curve;
  }
  return found == nullptr ? nullptr : Measured(kind, found->ranks());
}

const Curve* Fabric::Second(const Curve& curve, int64_t ranks) const {
  const auto across = [&](const Curve& other) {  // with `ranks` between the two
    return (other.ranks() < ranks) != (curve.ranks() < ranks);
  };
  const Curve* found = nullptr;
  for (const Curve& other : curves_) {
    if (other.kind() != curve.kind() || other.nodes() != curve.nodes() ||
        other.ranks() == curve.ranks()) {
      continue;
    }
    if (found == nullptr || across(other) > across(*found) ||
        (across(other) == across(*found) && Distance(other, ranks) < Distance(*found, ranks))) {
      found = &other;
    }
  }
  return found;
}

Estimate Fabric::Scaled(const Curve& curve, const Collective& asked) const {
  Estimate estimate = curve.At(asked.bytes);
  const std::string measured = estimate.source;
  double factor = BusFactor(asked.kind, asked.ranks) / BusFactor(curve.kind(), curve.ranks());
  double widen = kOtherRanks;
  std::string how = "times the ratio of volumes";
  const bool other_nodes =
      topology_.has_value() && topology_->NodesOf(asked.ranks) != curve.nodes();
  if (other_nodes) {
    const auto here = Transport(*topology_, asked);
    const auto there = Transport(*topology_, {curve.kind(), curve.ranks(), asked.bytes});
    widen = kAcrossNodes;
    if (here.ok() && there.ok()) {
      factor = here->micros / there->micros;
      how = "times the topology's ratio";
    }
  } else if (const Curve* second = Second(curve, asked.ranks)) {
    if (const auto line = LineThrough(curve, *second, asked.ranks); line.ok()) {
      estimate = line->At(asked.bytes);
      factor = 1;
      how = absl::StrCat("on a line through ", second->ranks(), " ranks");
    }
  }
  if (!topology_.has_value()) {
    widen = kUnknownFabric;
  } else if (!topology_->switched()) {
    widen = kMesh;
    how += ", on links that are not switched";
  }
  estimate = Widened(Times(std::move(estimate), factor), widen);
  estimate.source = absl::StrCat("extrapolated to ", asked.ranks, " ranks: ", measured, ", ", how);
  return estimate;
}

std::optional<Estimate> Fabric::FromCurves(CollectiveKind kind, const Collective& asked) const {
  // As many bytes on a link, in the other kind's terms.
  Collective same = asked;
  same.kind = kind;
  same.bytes *= BusFactor(asked.kind, asked.ranks) / BusFactor(kind, asked.ranks);
  if (const Curve* curve = Measured(kind, asked.ranks)) return curve->At(same.bytes);
  if (const Curve* curve = Nearest(kind, asked.ranks)) return Scaled(*curve, same);
  return {};
}

absl::StatusOr<Estimate> Fabric::FromTopology(const Collective& asked) const {
  auto transfer = Transport(*topology_, asked);
  if (!transfer.ok()) {
    return absl::Status(transfer.status().code(),
                        absl::StrCat(name_, ": ", transfer.status().message()));
  }
  const double factor = topology_->NodesOf(asked.ranks) > 1 ? kTopologyNetwork
                        : topology_->switched()             ? kTopology
                                                            : kMesh;
  const double micros = transfer->micros;
  return Estimate{.median = micros,
                  .low = std::max(micros / factor, LeastMicros(*topology_, asked)),
                  .high = micros * factor,
                  .in_hull = false,
                  .source = absl::StrCat("a priori: topology of ", name_, ", ", transfer->way)};
}

absl::StatusOr<Estimate> Fabric::Predict(const Collective& collective) const {
  EBB_RETURN_IF_ERROR(CheckCollective(collective));
  const Collective asked = WithEqualShares(collective);
  if (asked.ranks == 1 || asked.bytes == 0) {
    return Estimate{.source = asked.ranks == 1 ? "one rank" : "nothing to send"};
  }
  if (auto estimate = FromCurves(asked.kind, asked)) return *std::move(estimate);
  for (const CollectiveKind kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    if (kind == asked.kind) continue;
    if (auto estimate = FromCurves(kind, asked)) {
      Estimate derived = Widened(*std::move(estimate), kOtherKind);
      derived.source = absl::StrCat("by volume from ", Name(kind), ": ", derived.source);
      return derived;
    }
  }
  if (topology_.has_value()) return FromTopology(collective);
  return absl::UnimplementedError(absl::StrCat(
      name_, ": nothing is known of ", Name(asked.kind), " of ", asked.ranks,
      " ranks; import a curve of it or of all_reduce (nccl-tests, `ebb fabric import`), or give "
      "the fabric a topology"));
}

}  // namespace ebb::perfmodel
