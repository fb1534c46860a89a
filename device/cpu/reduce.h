// Sums of f32 over any set of dimensions, in a fixed order. Plain data, built when a kernel is
// made.
#pragma once

#include <array>

#include "absl/status/statusor.h"
#include "device/common/broadcast.h"
#include "device/cpu/common.h"

namespace ebb::device::cpu {

// The kept and the summed dimensions of a dense tensor in memory order, neighbours merged. The last
// dimension of one of the two groups is contiguous.
struct Reduction {
  struct Dims {
    int rank = 0;
    std::array<int64_t, kMaxRank> dim{};
    std::array<int64_t, kMaxRank> stride{};
    int64_t count = 1;
  };
  Dims kept;
  Dims summed;
  bool inner_summed = false;  // the contiguous dimension is a summed one
};

// `shape` and `summed` in memory order.
Reduction MakeReduction(const Shape& shape, absl::Span<const bool> summed);
// y (kept dimensions, dense) = scale times the sums.
void SumOver(const Reduction& plan, const float* x, float* y, double scale);

}  // namespace ebb::device::cpu
