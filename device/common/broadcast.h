// Broadcasting as strides: the output's dimensions with those that can be walked as one merged, and
// for every operand the stride (0 where it is repeated). Plain data, built when a kernel is made.
#pragma once

#include <array>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "device/common/operands.h"

namespace ebb::device {

inline constexpr int kMaxRank = 8;

template <int K>
struct Broadcast {
  int rank = 0;  // >= 1; the last dimension is the row
  std::array<int64_t, kMaxRank> dim{};
  std::array<std::array<int64_t, kMaxRank>, K> stride{};
  int64_t rows = 0;
  int64_t row = 0;

  // Calls f(offsets of the operands, offset in the output) for each row in memory order.
  template <class F>
  void ForEachRow(F f) const {
    std::array<int64_t, kMaxRank> at{};
    std::array<int64_t, K> offset{};
    for (int64_t r = 0; r < rows; ++r) {
      f(offset, r * row);
      for (int d = rank - 2; d >= 0; --d) {
        for (int k = 0; k < K; ++k) offset[k] += stride[k][d];
        if (++at[d] < dim[d]) break;
        for (int k = 0; k < K; ++k) offset[k] -= stride[k][d] * dim[d];
        at[d] = 0;
      }
    }
  }
};

// `shapes` broadcast to `out` (all in memory order). Unimplemented beyond 8 merged dimensions.
template <int K>
absl::StatusOr<Broadcast<K>> MakeBroadcast(const Shape& out, const std::array<Shape, K>& shapes) {
  Broadcast<K> plan;
  std::array<Shape, K> strides;
  for (int k = 0; k < K; ++k) {
    const Shape dense = graph::StridesOf(shapes[k]);
    const size_t lead = out.size() - shapes[k].size();
    strides[k].resize(out.size(), 0);
    for (size_t d = 0; d < shapes[k].size(); ++d) {
      strides[k][lead + d] = shapes[k][d] == 1 ? 0 : dense[d];
    }
  }
  int rank = 0;
  for (size_t d = 0; d < out.size(); ++d) {
    if (out[d] == 1) continue;
    bool merge = rank > 0;
    for (int k = 0; k < K && merge; ++k) {
      merge = plan.stride[k][rank - 1] == strides[k][d] * out[d];
    }
    if (merge) {
      plan.dim[rank - 1] *= out[d];
    } else if (rank == kMaxRank) {
      return absl::UnimplementedError("more than 8 dimensions that cannot be merged");
    } else {
      plan.dim[rank++] = out[d];
    }
    for (int k = 0; k < K; ++k) plan.stride[k][rank - 1] = strides[k][d];
  }
  if (rank == 0) plan.dim[rank++] = 1;
  plan.rank = rank;
  plan.row = plan.dim[rank - 1];
  plan.rows = 1;
  for (int d = 0; d + 1 < rank; ++d) plan.rows *= plan.dim[d];
  if (NumElements(out) == 0) plan.rows = 0;
  return plan;
}

// The memory-order shape of operand `value` of an op whose output is `out`: a plain operand of a
// channels-last op must be the same bytes in both orders. Unimplemented says which is not.
absl::StatusOr<Shape> OperandShape(const Node& node, const Value& value, const Value& out);
// The broadcasting of a node's two inputs to its output, in the output's layout.
absl::StatusOr<Broadcast<2>> PlanBinary(const Graph& graph, const Node& node);

}  // namespace ebb::device
