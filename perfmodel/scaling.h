// Throughput over the number of GPUs, as plots draw it. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "perfmodel/report.h"

namespace ebb::perfmodel {

struct ScalingPoint {
  int64_t gpus = 1;
  double samples = 0, low = 0, high = 0;  // a second
  double ideal = 0;                       // 0: one GPU's throughput is not known
};
// Of each number of GPUs the fastest report that fits, else the fastest; by number.
std::vector<ScalingPoint> ScalingOf(absl::Span<const StrategyReport> reports);

}  // namespace ebb::perfmodel
