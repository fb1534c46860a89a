// Reductions over any set of dimensions as walks over strides. Plain data, built when a kernel is
// made.
#pragma once

#include <array>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/common/broadcast.h"
#include "device/math/divisor.h"

namespace ebb::device {

// The kept and the summed dimensions of a dense tensor in memory order, neighbours merged. The last
// dimension of one of the two groups is contiguous.
struct Reduction {
  struct Dims {
    int rank = 0;
    std::array<Divisor, kMaxRank> dim{};
    std::array<int64_t, kMaxRank> stride{};
    int64_t count = 1;

    // Of position i, counted in memory order.
    EBB_INLINE int64_t Offset(int64_t i) const {
      int64_t offset = 0;
      EBB_NO_UNROLL
      for (int d = rank - 1; d > 0; --d) {
        const int64_t outer = i / dim[d];
        offset += (i - outer * dim[d]) * stride[d];
        i = outer;
      }
      return rank == 0 ? 0 : offset + i * stride[0];
    }
  };
  Dims kept;
  Dims summed;
  bool inner_summed = false;  // the contiguous dimension is a summed one
};

// `shape` and `summed` in memory order.
Reduction MakeReduction(const Shape& shape, absl::Span<const bool> summed);
// Of a Reduce* or SumTo node, whose results come in memory order. Unimplemented where what it keeps
// would change its layout.
absl::StatusOr<Reduction> ReductionOf(const Graph& graph, const Node& node);

}  // namespace ebb::device
