#include "perfmodel/topology.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "base/text.h"

namespace ebb::perfmodel {
namespace {

// Microseconds and shares of NCCL 2.19, src/graph/tuning.cc; columns: LL, LL128, simple.
constexpr int kProtocols = 3, kLl = 0, kLl128 = 1, kSimple = 2;
constexpr absl::string_view kProtocolNames[kProtocols] = {"LL", "LL128", "simple"};
constexpr double kTreeBase[kProtocols] = {6.8, 14.0, 0};
constexpr double kRingBase[kProtocols] = {6.6, 14.0, 8.4};
struct HopLatency {
  double tree[kProtocols];
  double ring[kProtocols];
};
constexpr HopLatency kNvLinkHop = {{.6, 1.25, 28}, {.6, 1.9, 3.4}};
constexpr HopLatency kPcieHop = {{1.0, 1.9, 28}, {1.0, 2.5, 5.7}};
constexpr HopLatency kNetworkHop = {{5.0, 8.5, 28}, {2.7, 4.0, 14.0}};
constexpr double kSwitchSumLatency = 23;
constexpr double kSwitchSumShare = 0.85 * 5 / 6;  // of a link's rate, of bytes summed
constexpr double kTreeShare = .92;
// How far trees fall short of their bandwidth, at powers of two from 64 bytes on.
constexpr int kCorrections = 23;
constexpr double kTreeCorrection[kProtocols][kCorrections] = {
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9},
};

constexpr double kBytesPerUs = 1e3;  // of 1 GB/s

// NCCL steps from row to row; between rows this goes straight, so that time never falls.
double TreeCorrection(int protocol, double bytes) {
  const double at = std::clamp(std::log2(bytes / 64), 0.0, kCorrections - 1.0);
  const auto low = std::min(static_cast<int>(at), kCorrections - 2);
  const double* row = kTreeCorrection[protocol];
  return row[low] + (at - low) * (row[low + 1] - row[low]);
}

struct Shape {
  const Topology& topology;
  int64_t ranks, nodes, ranks_per_node, stride;

  const HopLatency& hop() const { return topology.link == LinkKind::kPcie ? kPcieHop : kNvLinkHop; }
  double low_latency_gbs() const {
    return topology.low_latency_gbs[nodes == 1 ? 0 : nodes < 4 ? 1 : 2];
  }
  // The group's share of a node's adapters: groups beside it use them too.
  double node_gbs() const {
    const int64_t busy = std::min(topology.gpus_per_node, ranks_per_node * stride);
    return topology.nic_gbs * static_cast<double>(std::min(topology.nics, topology.gpus_per_node)) *
           static_cast<double>(ranks_per_node) / static_cast<double>(busy);
  }
};

Shape ShapeOf(const Topology& topology, const Collective& what) {
  return {topology, what.ranks, topology.NodesOf(what.ranks, what.stride),
          topology.RanksPerNode(what.ranks, what.stride), what.stride};
}

bool Allows(const Shape& shape, int protocol) {
  return protocol != kLl128 || shape.topology.link != LinkKind::kPcie;
}

// The rate at which a protocol fills a link whose full rate is `gbs`.
double ProtocolGbs(const Shape& shape, CollectiveKind kind, int protocol, double gbs) {
  if (protocol == kLl) {
    const bool quarter = shape.nodes > 1 || kind == CollectiveKind::kAllReduce;
    return std::min(shape.low_latency_gbs(), gbs / (quarter ? 4 : 3));
  }
  if (protocol == kLl128) return gbs * (shape.ranks_per_node < 2 ? 0.7 : 0.92);
  return gbs;
}

double RingMicros(const Shape& shape, const Collective& what, int protocol) {
  const bool all_reduce = what.kind == CollectiveKind::kAllReduce;
  const auto n = static_cast<double>(shape.ranks), nodes = static_cast<double>(shape.nodes);
  const double steps = all_reduce ? 2 * (n - 1) : n - 1;
  const double across = shape.nodes == 1 ? 0 : all_reduce ? 2 * nodes : nodes - 1;
  const double gbs = shape.nodes == 1 ? shape.topology.usable_gbs
                                      : std::min(shape.topology.usable_gbs, shape.node_gbs());
  const double network = kNetworkHop.ring[protocol] + shape.topology.nic_us;
  const double latency = kRingBase[protocol] +
                         std::max(steps - across, 0.0) * shape.hop().ring[protocol] +
                         across * network;
  return latency + what.bytes * BusFactor(what.kind, what.ranks) /
                       (ProtocolGbs(shape, what.kind, protocol, gbs) * kBytesPerUs);
}

// A double binary tree over nodes, a chain within each; all-reduce alone.
double TreeMicros(const Shape& shape, const Collective& what, int protocol) {
  const double network = kNetworkHop.tree[protocol] + shape.topology.nic_us;
  const double latency =
      kTreeBase[protocol] +
      2 * (static_cast<double>(shape.ranks_per_node - 1) * shape.hop().tree[protocol] +
           std::floor(std::log2(static_cast<double>(shape.nodes))) * network);
  double gbs = shape.topology.usable_gbs * kTreeShare;
  if (protocol == kLl) gbs = std::min(shape.low_latency_gbs(), gbs / 3.8);
  if (protocol == kLl128) gbs *= shape.nodes == 1 ? 7.0 / 9 : 120.0 / 128;
  // Up and down the tree a node sends all bytes once each; of two nodes one sends up, one down.
  double least = 0;
  if (shape.nodes > 1) {
    const double passes = shape.nodes == 2 ? 1 : 2;
    least = passes * what.bytes /
            (ProtocolGbs(shape, what.kind, protocol, shape.node_gbs()) * kBytesPerUs);
  }
  const double within = 2 * what.bytes / (gbs * TreeCorrection(protocol, what.bytes) * kBytesPerUs);
  return latency + std::max(within, least);
}

// Most bytes that one rank sends or receives, within its node and across nodes.
struct Load {
  double within = 0, across = 0;
};
Load LoadOf(const Topology& topology, const Collective& what) {
  const int64_t n = what.ranks, node = topology.RanksPerNode(n, what.stride);
  if (what.sends.empty()) {
    const double share = what.bytes / static_cast<double>(n);
    const int64_t near = std::min(n, node);
    return {share * static_cast<double>(near - 1), share * static_cast<double>(n - near)};
  }
  Load most;
  for (int64_t i = 0; i < n; ++i) {
    Load sent, received;
    for (int64_t j = 0; j < n; ++j) {
      if (i == j) continue;
      const bool near = i / node == j / node;
      (near ? sent.within : sent.across) += what.sends[i][j];
      (near ? received.within : received.across) += what.sends[j][i];
    }
    most.within = std::max({most.within, sent.within, received.within});
    most.across = std::max({most.across, sent.across, received.across});
  }
  return most;
}

// Of one rank's share of its node's adapters.
double ShareGbs(const Shape& shape) {
  return shape.node_gbs() / static_cast<double>(shape.ranks_per_node);
}

double AllToAllMicros(const Shape& shape, const Collective& what) {
  const Load load = LoadOf(shape.topology, what);
  double time = load.within / (shape.topology.usable_gbs * kBytesPerUs);
  double latency =
      kRingBase[kSimple] + static_cast<double>(shape.ranks_per_node - 1) * shape.hop().ring[kLl];
  if (shape.nodes > 1) {
    time = std::max(time, load.across / (ShareGbs(shape) * kBytesPerUs));
    latency += static_cast<double>(shape.ranks - shape.ranks_per_node) * kNetworkHop.ring[kLl] +
               shape.topology.nic_us;
  }
  return latency + time;
}

double SendMicros(const Shape& shape, const Collective& what, int protocol) {
  const bool across = shape.nodes > 1;
  double gbs = shape.topology.usable_gbs;
  if (across) gbs = std::min(gbs, shape.stride > 1 ? ShareGbs(shape) : shape.topology.nic_gbs);
  const double hop =
      across ? kNetworkHop.ring[protocol] + shape.topology.nic_us : shape.hop().ring[protocol];
  return kRingBase[protocol] + hop +
         what.bytes / (ProtocolGbs(shape, what.kind, protocol, gbs) * kBytesPerUs);
}

absl::Status Fault(absl::string_view what) { return absl::InvalidArgumentError(what); }

bool Rate(double gbs) { return gbs > 0 && gbs <= 1e6; }

}  // namespace

absl::string_view Name(LinkKind kind) {
  switch (kind) {
    case LinkKind::kNvSwitch:
      return "nvswitch";
    case LinkKind::kNvMesh:
      return "nvmesh";
    case LinkKind::kPcie:
      return "pcie";
  }
  return "?";
}

absl::StatusOr<LinkKind> ParseLinkKind(absl::string_view name) {
  for (const LinkKind kind : {LinkKind::kNvSwitch, LinkKind::kNvMesh, LinkKind::kPcie}) {
    if (Name(kind) == name) return kind;
  }
  return Fault(
      absl::StrCat("no kind of link '", Escaped(name), "'; there are nvswitch, nvmesh, pcie"));
}

absl::Status CheckTopology(const Topology& topology) {
  if (topology.gpus_per_node < 1 || topology.gpus_per_node > 1024) {
    return Fault("gpus_per_node must be 1 to 1024");
  }
  if (topology.nodes < 1 || topology.nodes > 65536) return Fault("nodes must be 1 to 65536");
  if (!Rate(topology.link_gbs)) return Fault("link_gbs must be above 0 and at most 1e6");
  if (!Rate(topology.usable_gbs) || topology.usable_gbs > topology.link_gbs) {
    return Fault("usable_gbs must be above 0 and at most link_gbs");
  }
  for (const double gbs : topology.low_latency_gbs) {
    if (!Rate(gbs)) return Fault("low_latency_gbs must be above 0 and at most 1e6");
  }
  if (topology.nodes > 1) {
    if (topology.nics < 1 || topology.nics > 1024) return Fault("nics must be 1 to 1024");
    if (!Rate(topology.nic_gbs)) return Fault("nic_gbs must be above 0 and at most 1e6");
  }
  if (!(topology.nic_us >= 0 && topology.nic_us <= 1e6)) return Fault("nic_us must be 0 to 1e6");
  return absl::OkStatus();
}

absl::StatusOr<Transfer> Transport(const Topology& topology, const Collective& what) {
  if ((what.ranks - 1) * what.stride >= topology.gpus()) {
    return absl::UnimplementedError(absl::StrCat(
        what.ranks, " ranks", what.stride > 1 ? absl::StrCat(" of stride ", what.stride) : "",
        " on a fabric of ", topology.nodes, " nodes of ", topology.gpus_per_node, " GPUs"));
  }
  const Shape shape = ShapeOf(topology, what);
  Transfer best{.micros = std::numeric_limits<double>::infinity(), .way = {}};
  const auto offer = [&](double micros, absl::string_view algorithm, absl::string_view protocol) {
    if (micros < best.micros) {
      best = {micros, absl::StrCat(algorithm, protocol.empty() ? "" : ", ", protocol)};
    }
  };
  for (int protocol = 0; protocol < kProtocols; ++protocol) {
    if (!Allows(shape, protocol)) continue;
    const absl::string_view name = kProtocolNames[protocol];
    if (what.kind == CollectiveKind::kAllToAll) {
      if (protocol == kSimple) offer(AllToAllMicros(shape, what), "peer to peer", "");
    } else if (what.kind == CollectiveKind::kSendRecv) {
      offer(SendMicros(shape, what, protocol), "peer to peer", name);
    } else {
      offer(RingMicros(shape, what, protocol), "ring", name);
      if (what.kind == CollectiveKind::kAllReduce) {
        offer(TreeMicros(shape, what, protocol), "tree", name);
      }
    }
  }
  if (what.kind == CollectiveKind::kAllReduce && topology.switch_sums && shape.nodes == 1 &&
      what.ranks > 2) {
    offer(kSwitchSumLatency + what.bytes / (topology.usable_gbs * kSwitchSumShare * kBytesPerUs),
          "sums in the switch", "");
  }
  best.micros = std::max(best.micros, LeastMicros(topology, what));
  return best;
}

double LeastMicros(const Topology& topology, const Collective& what) {
  if (what.kind == CollectiveKind::kAllToAll) {
    const Shape shape = ShapeOf(topology, what);
    const Load load = LoadOf(topology, what);
    const double within = load.within / (topology.link_gbs * kBytesPerUs);
    return shape.nodes == 1 ? within
                            : std::max(within, load.across / (ShareGbs(shape) * kBytesPerUs));
  }
  return what.bytes * BusFactor(what.kind, what.ranks) / (topology.link_gbs * kBytesPerUs);
}

}  // namespace ebb::perfmodel
