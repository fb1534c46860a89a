// The fabrics of data sheets.
#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "perfmodel/fabric.h"

namespace ebb::perfmodel {
namespace {

// Rates of data sheets, one way, and what NCCL's search of topologies assumes of them
// (src/graph/topo.h, 2.19): 20 GB/s of a V100's or A100's NVLink, 20.6 of an H100's; 12, 24 and 48
// of PCIe 3, 4 and 5 x16.
Topology NvLink(double links, double link_gbs, double usable_gbs, int64_t gpus) {
  return {.gpus_per_node = gpus, .link_gbs = links * link_gbs, .usable_gbs = links * usable_gbs};
}

Topology V100(LinkKind link, int64_t gpus) {
  Topology topology = NvLink(6, 25, 20, gpus);
  topology.link = link;
  const double low_latency[] = {39.0, 39.0, 20.4};
  std::copy(std::begin(low_latency), std::end(low_latency), topology.low_latency_gbs);
  return topology;
}

Topology A100() { return NvLink(12, 25, 20, 8); }

Topology H100() {
  Topology topology = NvLink(18, 25, 20.6, 8);
  topology.switch_sums = true;
  return topology;
}

Topology Pcie(double link_gbs, double usable_gbs) {
  return {.link = LinkKind::kPcie, .link_gbs = link_gbs, .usable_gbs = usable_gbs};
}

// 12.5 GB/s: 100 Gb/s.
Topology With(Topology topology, int64_t nics, double nic_gbs, double nic_us) {
  topology.nodes = 128;
  topology.nics = nics;
  topology.nic_gbs = nic_gbs;
  topology.nic_us = nic_us;
  return topology;
}

// What the kernel's TCP stack adds to a hop, about.
constexpr double kTcpUs = 20;

}  // namespace

const std::vector<FabricPreset>& KnownFabrics() {
  static const auto* const table = new std::vector<FabricPreset>{
      {"a100-ethernet100", "nodes of 8 A100, NVSwitch; one 100 Gb/s Ethernet port each, TCP",
       With(A100(), 1, 12.5, kTcpUs)},
      {"a100-ib200", "nodes of 8 A100, NVSwitch; 8 ports of 200 Gb/s InfiniBand",
       With(A100(), 8, 25, 0)},
      {"a100-nvswitch", "8 A100, NVSwitch", A100()},
      {"h100-ethernet100", "nodes of 8 H100, NVSwitch; one 100 Gb/s Ethernet port each, TCP",
       With(H100(), 1, 12.5, kTcpUs)},
      {"h100-ib400", "nodes of 8 H100, NVSwitch; 8 ports of 400 Gb/s InfiniBand",
       With(H100(), 8, 50, 0)},
      {"h100-nvswitch", "8 H100, NVSwitch that adds (NVLink SHARP)", H100()},
      {"pcie3", "8 GPUs on PCIe 3 x16", Pcie(15.75, 12)},
      {"pcie4", "8 GPUs on PCIe 4 x16", Pcie(31.5, 24)},
      {"pcie4-ethernet100", "nodes of 8 GPUs on PCIe 4 x16; one 100 Gb/s Ethernet port each, TCP",
       With(Pcie(31.5, 24), 1, 12.5, kTcpUs)},
      {"pcie5", "8 GPUs on PCIe 5 x16", Pcie(63, 48)},
      {"v100-nvmesh", "8 V100, NVLink cube mesh (DGX-1)", V100(LinkKind::kNvMesh, 8)},
      {"v100-nvswitch", "16 V100, NVSwitch (DGX-2)", V100(LinkKind::kNvSwitch, 16)},
  };
  return *table;
}

absl::StatusOr<Fabric> FindFabric(absl::string_view name) {
  for (const FabricPreset& preset : KnownFabrics()) {
    if (preset.name == name) return Fabric::Make(preset.name, {}, preset.topology);
  }
  return absl::NotFoundError(absl::StrCat(
      "no fabric '", Escaped(name), "'; there are ",
      absl::StrJoin(KnownFabrics(), ", ", [](std::string* out, const FabricPreset& preset) {
        absl::StrAppend(out, preset.name);
      })));
}

}  // namespace ebb::perfmodel
