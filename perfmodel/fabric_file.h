// Fabrics as text: YAML with a topology, curves or both. Pure.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/fabric.h"

namespace ebb::perfmodel {

// A mapping of
//   name: my-cluster
//   preset: a100-nvswitch    # a topology of KnownFabrics(); fields of `topology` go over it
//   topology: {link: nvswitch, gpus_per_node: 8, nodes: 2, link_gbs: 300, usable_gbs: 240,
//              switch_sums: false, low_latency_gbs: [87.7, 22.5, 19], nics: 8, nic_gbs: 25,
//              nic_us: 0}    # usable_gbs: 0.8 of link_gbs where it is not given
//   curves:
//   - kind: all_reduce
//     ranks: 8
//     nodes: 1               # 1 where it is not given
//     source: nccl.log       # optional
//     points: [[1024, 11.8], [2048, 12.1]]  # bytes, microseconds
// InvalidArgument, beginning with "SOURCE:LINE:COLUMN: ": not UTF-8, above 64 MiB, not YAML, an
// unknown or repeated field, a value out of range, what Curve::Make and Fabric::Make refuse.
absl::StatusOr<Fabric> ParseFabric(absl::string_view text, absl::string_view source);

// What ParseFabric reads back as the same fabric.
std::string FabricText(const Fabric& fabric);

}  // namespace ebb::perfmodel
