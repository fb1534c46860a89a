// Plans of reductions: which dimensions are summed, and how they lie in memory.
#include "device/common/reduction.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::device {
namespace {

void Append(Reduction::Dims& dims, int64_t dim, int64_t stride, bool merge) {
  if (merge) {
    dims.dim[dims.rank - 1] = dims.dim[dims.rank - 1] * dim;
    dims.stride[dims.rank - 1] = stride;
  } else {
    dims.dim[dims.rank] = dim;
    dims.stride[dims.rank++] = stride;
  }
  dims.count *= dim;
}

// Which dimensions of the input, in memory order, a node sums.
absl::StatusOr<std::vector<bool>> SummedDims(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  const size_t rank = x.type.shape.size();
  std::vector<bool> summed(rank, false);
  if (node.op->name == "SumTo") {
    const Shape& to = Out(graph, node).type.shape;
    const size_t lead = rank - to.size();
    for (size_t d = 0; d < rank; ++d) {
      const bool axis = d < lead || (to[d - lead] == 1 && x.type.shape[d] != 1);
      if (axis) summed[PhysicalAxis(static_cast<int64_t>(d), rank, x.layout)] = true;
    }
  } else {
    for (const int64_t axis : node.attrs.Ints("axes")) {
      summed[PhysicalAxis(axis, rank, x.layout)] = true;
    }
  }
  // What stays keeps its memory order, so it must fit the output's.
  const Value& y = Out(graph, node);
  const bool same_order = (y.layout == x.layout && y.type.shape.size() == rank) ||
                          (x.layout == Layout::kPlain && y.layout == Layout::kPlain);
  if (!same_order) {
    bool spatial = false;  // does more than N and C survive?
    for (size_t d = 2; d < rank; ++d) {
      const int64_t axis = PhysicalAxis(static_cast<int64_t>(d), rank, Layout::kChannelsLast);
      spatial |= !summed[axis] && x.type.shape[d] != 1;
    }
    const bool channels =
        !summed[PhysicalAxis(1, rank, Layout::kChannelsLast)] && x.type.shape[1] != 1;
    if (x.layout != Layout::kChannelsLast || (spatial && channels)) {
      return absl::UnimplementedError(
          absl::StrCat(node.op->name, " on this device cannot change the layout of what it keeps"));
    }
  }
  return summed;
}

}  // namespace

Reduction MakeReduction(const Shape& shape, absl::Span<const bool> summed) {
  Reduction plan;
  const Shape strides = graph::StridesOf(shape);
  bool first = true;
  bool last_summed = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const bool merge = !first && summed[d] == last_summed;
    Append(summed[d] ? plan.summed : plan.kept, shape[d], strides[d], merge);
    last_summed = summed[d];
    first = false;
  }
  plan.inner_summed = !first && last_summed;
  return plan;
}

absl::StatusOr<Reduction> ReductionOf(const Graph& graph, const Node& node) {
  EBB_ASSIGN_OR_RETURN(const std::vector<bool> summed, SummedDims(graph, node));
  const Shape shape = PhysicalShape(In(graph, node));
  bool flags[kMaxRank] = {};
  std::copy(summed.begin(), summed.end(), flags);
  return MakeReduction(shape, absl::MakeConstSpan(flags, shape.size()));
}

}  // namespace ebb::device
