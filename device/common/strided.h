// Copies between two strided views of equal dimensions: what every movement op comes down to, in
// any layout. Plain data, built when a kernel is made.
#pragma once

#include <array>

#include "device/common/broadcast.h"
#include "device/common/operands.h"

namespace ebb::device {

// Strides in elements of the logical dimensions of a value in its layout.
Shape LogicalStrides(const Value& value);

struct StridedCopy {
  int rank = 0;
  std::array<int64_t, kMaxRank> dim{};
  std::array<int64_t, kMaxRank> from{};  // strides in elements, may be negative
  std::array<int64_t, kMaxRank> to{};
  int64_t from_base = 0;
  int64_t to_base = 0;
  int64_t element = 4;  // bytes: 1, 4 or 8

  // The dimension along which the source is contiguous when the target is along its last, -1 when
  // there is no such: both are then read and written in lines when tiles are turned around.
  int Across() const {
    const int last = rank - 1;
    int across = -1;
    if (to[last] != 1 || from[last] == 1) return across;
    for (int d = 0; d < last; ++d) {
      if (from[d] == 1 && dim[d] > 1) across = d;
    }
    return across;
  }
};

// At most 8 dimensions (every op's limit). Dimensions are put in the order of the target's memory
// and merged where both sides allow it.
StridedCopy MakeStridedCopy(const Shape& dims, const Shape& from, const Shape& to, DType dtype,
                            int64_t from_base = 0, int64_t to_base = 0);

// What movement ops copy.
StridedCopy LayoutCopy(const Graph& graph, const Node& node);  // ToChannelsLast, ToPlain
StridedCopy TransposeCopy(const Graph& graph, const Node& node);
std::vector<StridedCopy> ConcatCopies(const Graph& graph, const Node& node);  // one an input
StridedCopy SliceCopy(const Graph& graph, const Node& node);
StridedCopy SliceGradCopy(const Graph& graph, const Node& node);  // the rest is zero
StridedCopy PadCopy(const Graph& graph, const Node& node);        // the rest is the constant

}  // namespace ebb::device
