// Tables of whole iterations and of all-reduces, as others measured them. Free functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "perfmodel/fabric.h"
#include "perfmodel/iteration_law.h"

namespace ebb::bench {

// training/vtrain/ground_truth_single.csv: Megatron's iterations on 2, 4 and 8 A100.
absl::StatusOr<std::vector<perfmodel::MeasuredRun>> VtrainRuns(const std::string& data);
// collectives/vtrain/a100: all-reduces of 2 to 8 A100 of a node, out of place.
absl::StatusOr<perfmodel::Fabric> VtrainFabric(const std::string& data);

}  // namespace ebb::bench
