// A fabric: what joins GPUs. Answers how long a collective takes on it, from what was measured
// there where it can, and says from what. Immutable; may be asked from any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/curve.h"
#include "perfmodel/predictor.h"
#include "perfmodel/topology.h"

namespace ebb::perfmodel {

class Fabric : public CollectivePredictor {
 public:
  // InvalidArgument: neither curves nor a topology; two curves of one kind, number of ranks and
  // nodes; one measurement as curves of two subjects (one of them is a copy); a topology that
  // CheckTopology refuses.
  static absl::StatusOr<Fabric> Make(std::string name, std::vector<Curve> curves,
                                     std::optional<Topology> topology = {});

  // The first of these that there is:
  // 1. the curve of that kind and number of ranks; of several the one on as many nodes as the
  //    topology fills, else on the fewest;
  // 2. the curve of that kind and the nearest other number of ranks, times the ratio of the bytes
  //    that a link carries; of two curves on as many nodes, the line through both (LineThrough);
  // 3. the curve of all-reduce (else all-gather, reduce-scatter) at the size that has a link carry
  //    as many bytes, as 1 or 2; of all-to-all and send_recv across nodes only by a topology;
  // 4. the topology (Transport).
  // In 2 between numbers of nodes, in 3 across nodes, and for a group of a stride that is on other
  // nodes than the curve's, it is ByTopology that scales the curve. A stride on a fabric without a
  // topology only widens.
  // All but 1 within its sizes are not in_hull, do not pass the topology's links, and have wider
  // intervals; widest between numbers of ranks on a fabric that is not known to be switched.
  // InvalidArgument: a collective with negative or infinite bytes, or `sends` that are not ranks x
  // ranks. Unimplemented: none of the four, or more ranks than the topology has GPUs.
  absl::StatusOr<Estimate> Predict(const Collective& collective) const override;

  const std::string& name() const { return name_; }
  const std::vector<Curve>& curves() const { return curves_; }  // by kind, ranks, nodes
  const std::optional<Topology>& topology() const { return topology_; }

 private:
  Fabric() = default;
  const Curve* Measured(CollectiveKind kind, int64_t ranks, int64_t stride) const;
  const Curve* Nearest(CollectiveKind kind, int64_t ranks, int64_t stride) const;
  // One of the same kind and nodes as `curve`, to draw a line through both; null if there is none.
  const Curve* Second(const Curve& curve, int64_t ranks) const;
  std::optional<Estimate> FromCurves(CollectiveKind kind, const Collective& asked) const;
  Estimate OfOtherRanks(const Curve& curve, const Collective& asked) const;
  Estimate WithinLinks(Estimate estimate, const Collective& asked) const;
  absl::StatusOr<Estimate> FromTopology(const Collective& asked) const;

  std::string name_;
  std::vector<Curve> curves_;
  std::optional<Topology> topology_;
};

// Fabrics by their data sheets, without curves.
struct FabricPreset {
  std::string name;   // "a100-nvswitch"
  std::string about;  // "8 A100 in a node, NVSwitch"
  Topology topology;
};
const std::vector<FabricPreset>& KnownFabrics();  // by name
// NotFound lists the names.
absl::StatusOr<Fabric> FindFabric(absl::string_view name);

}  // namespace ebb::perfmodel
