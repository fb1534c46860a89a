#include "perfmodel/fabric.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "perfmodel/scaled_curve.h"

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

double Distance(const Curve& curve, int64_t ranks) {
  return std::abs(std::log(static_cast<double>(curve.ranks()) / static_cast<double>(ranks)));
}

bool Amount(double bytes) { return bytes >= 0 && std::isfinite(bytes); }

absl::Status CheckCollective(const Collective& what) {
  const auto fault = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat(Name(what.kind), ": ", why));
  };
  if (what.ranks < 1 || what.ranks > Curve::kMaxRanks) {
    return fault(absl::StrCat(what.ranks, " ranks; there must be 1 to ", Curve::kMaxRanks));
  }
  if (what.stride < 1 || what.stride > Curve::kMaxRanks) {
    return fault(absl::StrCat("stride ", what.stride, "; it must be 1 to ", Curve::kMaxRanks));
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
  return {what.kind, what.ranks, factor > 0 ? most / factor : 0, {}, what.stride};
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

const Curve* Fabric::Measured(CollectiveKind kind, int64_t ranks, int64_t stride) const {
  const Curve* found = nullptr;
  for (const Curve& curve : curves_) {
    if (curve.kind() != kind || curve.ranks() != ranks) continue;
    if (found == nullptr) found = &curve;  // the fewest nodes come first
    if (topology_.has_value() && curve.nodes() == topology_->NodesOf(ranks, stride)) {
      return &curve;
    }
  }
  return found;
}

const Curve* Fabric::Nearest(CollectiveKind kind, int64_t ranks, int64_t stride) const {
  const Curve* found = nullptr;
  for (const Curve& curve : curves_) {
    if (curve.kind() != kind) continue;
    if (found == nullptr || Distance(curve, ranks) < Distance(*found, ranks)) found = &curve;
  }
  return found == nullptr ? nullptr : Measured(kind, found->ranks(), stride);
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

Estimate Fabric::OfOtherRanks(const Curve& curve, const Collective& asked) const {
  Estimate estimate = curve.At(asked.bytes);
  const std::string measured = estimate.source;
  double widen = topology_.has_value() ? kOtherRanks : kUnknownFabric;
  std::string how = "times the ratio of volumes";
  const Curve* second = Second(curve, asked.ranks);
  const auto line = second == nullptr ? absl::StatusOr<Curve>(absl::NotFoundError(""))
                                      : LineThrough(curve, *second, asked.ranks);
  if (line.ok()) {
    estimate = line->At(asked.bytes);
    how = absl::StrCat("on a line through ", second->ranks(), " ranks");
  } else {
    estimate = Times(std::move(estimate),
                     BusFactor(asked.kind, asked.ranks) / BusFactor(curve.kind(), curve.ranks()));
  }
  if (topology_.has_value() && !topology_->switched()) {
    widen = kMesh;
    how += ", on links that are not switched";
  }
  estimate = Widened(std::move(estimate), widen);
  estimate.source = absl::StrCat("extrapolated to ", asked.ranks, " ranks: ", measured, ", ", how);
  return estimate;
}

std::optional<Estimate> Fabric::FromCurves(CollectiveKind kind, const Collective& asked) const {
  const Curve* curve = Measured(kind, asked.ranks, asked.stride);
  const bool same_ranks = curve != nullptr;
  if (!same_ranks) curve = Nearest(kind, asked.ranks, asked.stride);
  if (curve == nullptr) return {};
  const int64_t nodes =
      topology_.has_value() ? topology_->NodesOf(asked.ranks, asked.stride) : curve->nodes();
  const bool same_place = asked.stride == 1 || (topology_.has_value() && nodes == curve->nodes());
  if (same_ranks && same_place && kind == asked.kind) return curve->At(asked.bytes);
  std::optional<Estimate> estimate;
  if (topology_.has_value() && (nodes != curve->nodes() || (kind != asked.kind && nodes > 1))) {
    // Links and adapters share the work in another way.
    const auto scaled = ByTopology(*curve, asked, *topology_);
    if (!scaled.ok()) return {};
    estimate = Widened(scaled->At(asked.bytes), kAcrossNodes);
    estimate->source = absl::StrCat("extrapolated to ", asked.ranks, " ranks on ", nodes,
                                    " nodes by the topology: ", curve->At(asked.bytes).source);
  } else if (nodes > 1 &&
             (asked.kind == CollectiveKind::kAllToAll || asked.kind == CollectiveKind::kSendRecv) &&
             kind != asked.kind) {
    return {};  // an adapter carries all that a rank sends, of all-reduce a node's share
  } else {
    // As many bytes on a link, in the other kind's terms.
    Collective same = asked;
    same.kind = kind;
    same.bytes *= BusFactor(asked.kind, asked.ranks) / BusFactor(kind, asked.ranks);
    estimate = same_ranks ? curve->At(same.bytes) : OfOtherRanks(*curve, same);
  }
  if (!topology_.has_value() && !same_place) {
    estimate = Widened(*std::move(estimate), kUnknownFabric);
    estimate->source += ", as if its ranks were neighbours";
  }
  if (kind != asked.kind) {
    estimate = Widened(*std::move(estimate), kOtherKind);
    estimate->source = absl::StrCat("by volume from ", Name(kind), ": ", estimate->source);
  }
  return estimate;
}

// Nothing that was not measured passes the links.
Estimate Fabric::WithinLinks(Estimate estimate, const Collective& asked) const {
  if (!topology_.has_value() || estimate.in_hull) return estimate;
  const double least = LeastMicros(*topology_, asked);
  estimate.median = std::max(estimate.median, least);
  estimate.low = std::max(estimate.low, least);
  estimate.high = std::max(estimate.high, least);
  return estimate;
}

absl::StatusOr<Estimate> Fabric::FromTopology(const Collective& asked) const {
  EBB_ASSIGN_OR_RETURN(const Transfer transfer, Transport(*topology_, asked));
  const double factor = topology_->NodesOf(asked.ranks, asked.stride) > 1 ? kTopologyNetwork
                        : topology_->switched()                           ? kTopology
                                                                          : kMesh;
  Estimate estimate{.median = transfer.micros, .low = transfer.micros, .high = transfer.micros};
  estimate = Widened(std::move(estimate), factor);
  estimate.source = absl::StrCat("a priori: topology of ", name_, ", ", transfer.way);
  return estimate;
}

absl::StatusOr<Estimate> Fabric::Predict(const Collective& collective) const {
  EBB_RETURN_IF_ERROR(CheckCollective(collective));
  const Collective asked = WithEqualShares(collective);
  if (asked.ranks == 1 || asked.bytes == 0) {
    return Estimate{.source = asked.ranks == 1 ? "one rank" : "nothing to send"};
  }
  const bool too_many =
      topology_.has_value() && (asked.ranks - 1) * asked.stride >= topology_->gpus();
  for (const CollectiveKind kind : {asked.kind, CollectiveKind::kAllReduce,
                                    CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    if (too_many && Measured(kind, asked.ranks, asked.stride) == nullptr) continue;
    if (auto estimate = FromCurves(kind, asked)) {
      return WithinLinks(*std::move(estimate), collective);
    }
  }
  if (topology_.has_value()) {
    auto estimate = FromTopology(collective);
    if (estimate.ok()) return WithinLinks(*std::move(estimate), collective);
    return absl::Status(estimate.status().code(),
                        absl::StrCat(name_, ": ", estimate.status().message()));
  }
  return absl::UnimplementedError(absl::StrCat(
      name_, ": nothing is known of ", Name(asked.kind), " of ", asked.ranks,
      " ranks; import a curve of it or of all_reduce (nccl-tests, `ebb fabric import`), or give "
      "the fabric a topology"));
}

}  // namespace ebb::perfmodel
