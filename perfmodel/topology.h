// A fabric as its data sheets describe it: GPUs in nodes, links within and between them; and what a
// collective takes on it before anything was measured. Plain data, pure functions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/collective.h"

namespace ebb::perfmodel {

enum class LinkKind : uint8_t {
  kNvSwitch,  // every GPU reaches every other of its node at full rate
  kNvMesh,    // NVLinks from GPU to GPU (a cube mesh, bridges): the rate depends on which GPUs
  kPcie,
};
absl::string_view Name(LinkKind kind);  // "nvswitch", "nvmesh", "pcie"
absl::StatusOr<LinkKind> ParseLinkKind(absl::string_view name);

struct Topology {
  LinkKind link = LinkKind::kNvSwitch;
  int64_t gpus_per_node = 8;
  int64_t nodes = 1;      // at most this many
  double link_gbs = 0;    // of a GPU to its node's others, one way: what cannot be passed
  double usable_gbs = 0;  // of that, what NCCL gets of it (its search assumes 20 GB/s a link)
  // What the low-latency protocol of NCCL carries at most on 1, 2, 4 and more nodes.
  double low_latency_gbs[3] = {87.7, 22.5, 19.0};
  bool switch_sums = false;  // the switches add (NVLink SHARP, from Hopper on)
  int64_t nics = 0;          // network adapters of a node
  double nic_gbs = 0;        // each, one way: what cannot be passed
  double nic_us = 0;         // more of latency for each hop than InfiniBand with GPUDirect has

  int64_t gpus() const { return gpus_per_node * nodes; }
  // Of a group, in a node that it fills as far as its stride allows.
  int64_t RanksPerNode(int64_t ranks, int64_t stride) const {
    return std::min(ranks, std::max<int64_t>(gpus_per_node / stride, 1));
  }
  // Nodes that a group fills, one after another.
  int64_t NodesOf(int64_t ranks, int64_t stride = 1) const {
    const int64_t near = RanksPerNode(ranks, stride);
    return (ranks + near - 1) / near;
  }
  // Every pair of ranks of a node has the same rate.
  bool switched() const { return link != LinkKind::kNvMesh; }
  bool operator==(const Topology&) const = default;
};

// InvalidArgument names the field that is out of range.
absl::Status CheckTopology(const Topology& topology);

// A time with the way that NCCL would go.
struct Transfer {
  double micros = 0;
  std::string way;  // "ring, simple"
};

// The least over algorithms (ring, tree, sums in the switch) and protocols (LL, LL128, simple) of
// latency + bytes / bandwidth, by the constants of NCCL's tuner (src/graph/tuning.cc, 2.19); of
// all-to-all: the latency of its peers + the slower of what a rank must send or receive within its
// node and across. Never faster than the links. Ranks fill nodes one after another; of
// send_recv, it crosses nodes where they need more than one. Groups of a stride share the adapters
// with their neighbours. Unimplemented: more ranks than GPUs.
absl::StatusOr<Transfer> Transport(const Topology& topology, const Collective& collective);

// The least time that the links allow: busbw never passes them.
double LeastMicros(const Topology& topology, const Collective& collective);

}  // namespace ebb::perfmodel
