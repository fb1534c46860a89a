// Plans from shapes and attributes.
#include "device/common/pointers.h"

#include <string>

namespace ebb::device {

ElementPointers ElementPointersOf(const Node& node, const Shape& x, const Shape& indices) {
  const auto axis = static_cast<size_t>(node.attrs.Int("axis", 0));
  const Shape strides = graph::StridesOf(x);
  ElementPointers plan;
  plan.rank = static_cast<int>(x.size());
  plan.count = NumElements(indices);
  plan.length = x[axis];
  plan.step = strides[axis];
  for (size_t d = 0; d < x.size(); ++d) {
    plan.dim[d] = indices[d];
    plan.stride[d] = d == axis ? 0 : strides[d];
  }
  return plan;
}

SlicePointers SlicePointersOf(const Node& node, const Shape& x, const Shape& indices) {
  const auto batch = static_cast<size_t>(node.attrs.Int("batch_dims", 0));
  const Shape strides = graph::StridesOf(x);
  SlicePointers plan;
  plan.depth = static_cast<int>(indices.back());
  for (size_t d = 0; d < batch; ++d) plan.batches *= x[d];
  const int64_t tuples = NumElements(indices) / plan.depth;
  plan.per_batch = plan.batches == 0 ? 0 : tuples / plan.batches;
  plan.batch_stride = plan.batches == 0 ? 0 : NumElements(x) / plan.batches;
  for (int k = 0; k < plan.depth; ++k) {
    plan.length[k] = x[batch + static_cast<size_t>(k)];
    plan.stride[k] = strides[batch + static_cast<size_t>(k)];
  }
  for (size_t d = batch + static_cast<size_t>(plan.depth); d < x.size(); ++d) plan.size *= x[d];
  return plan;
}

ScatterHow ScatterHowOf(const Node& node) {
  const std::string reduction = node.attrs.Str("reduction", "none");
  if (reduction == "add") return ScatterHow::kAdd;
  if (reduction == "mul") return ScatterHow::kMul;
  if (reduction == "max") return ScatterHow::kMax;
  return reduction == "min" ? ScatterHow::kMin : ScatterHow::kReplace;
}

}  // namespace ebb::device
