// Strided copies of movement ops, in the order of the target's memory.
#include "device/common/strided.h"

#include <algorithm>
#include <cstdlib>

namespace ebb::device {

Shape LogicalStrides(const Value& value) {
  const Shape dense = graph::StridesOf(PhysicalShape(value));
  Shape strides(value.type.shape.size());
  for (size_t d = 0; d < strides.size(); ++d) {
    strides[d] = dense[static_cast<size_t>(
        PhysicalAxis(static_cast<int64_t>(d), strides.size(), value.layout))];
  }
  return strides;
}

StridedCopy MakeStridedCopy(const Shape& dims, const Shape& from, const Shape& to, DType dtype,
                            int64_t from_base, int64_t to_base) {
  std::vector<size_t> order;
  bool empty = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    empty |= dims[d] == 0;
    if (dims[d] != 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::abs(to[a]) > std::abs(to[b]); });
  StridedCopy copy;
  copy.from_base = from_base;
  copy.to_base = to_base;
  copy.element = graph::SizeOf(dtype).count();
  for (const size_t d : order) {
    const int last = copy.rank - 1;
    if (copy.rank > 0 && copy.from[last] == from[d] * dims[d] && copy.to[last] == to[d] * dims[d]) {
      copy.dim[last] *= dims[d];
    } else {
      copy.dim[copy.rank++] = dims[d];
    }
    copy.from[copy.rank - 1] = from[d];
    copy.to[copy.rank - 1] = to[d];
  }
  if (copy.rank == 0 || empty) {
    copy.rank = 1;
    copy.dim[0] = empty ? 0 : 1;
    copy.from[0] = copy.to[0] = 1;
  }
  return copy;
}

StridedCopy LayoutCopy(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  const Value& y = Out(graph, node);
  return MakeStridedCopy(x.type.shape, LogicalStrides(x), LogicalStrides(y), x.type.dtype);
}

StridedCopy TransposeCopy(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  const Value& y = Out(graph, node);
  const std::vector<int64_t> perm = node.attrs.Ints("perm");
  const Shape strides = LogicalStrides(x);
  Shape from(perm.size());
  for (size_t d = 0; d < perm.size(); ++d) from[d] = strides[static_cast<size_t>(perm[d])];
  return MakeStridedCopy(y.type.shape, from, LogicalStrides(y), x.type.dtype);
}

std::vector<StridedCopy> ConcatCopies(const Graph& graph, const Node& node) {
  const Value& y = Out(graph, node);
  const size_t axis = static_cast<size_t>(node.attrs.Int("axis", 0));
  const Shape to = LogicalStrides(y);
  std::vector<StridedCopy> copies;
  int64_t at = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Value& x = In(graph, node, i);
    copies.push_back(
        MakeStridedCopy(x.type.shape, LogicalStrides(x), to, x.type.dtype, 0, at * to[axis]));
    at += x.type.shape[axis];
  }
  return copies;
}

namespace {

// A slice's view of a value: where it starts and its strides.
struct SliceView {
  Shape strides;
  int64_t base = 0;
};

SliceView SliceOf(const Node& node, const Value& whole) {
  SliceView view{LogicalStrides(whole), 0};
  const std::vector<int64_t> starts = node.attrs.Ints("starts");
  const std::vector<int64_t> axes = node.attrs.Ints("axes");
  const std::vector<int64_t> steps = node.attrs.Ints("steps", std::vector<int64_t>(axes.size(), 1));
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = static_cast<size_t>(axes[i]);
    view.base += starts[i] * view.strides[axis];
    view.strides[axis] *= steps[i];
  }
  return view;
}

}  // namespace

StridedCopy SliceCopy(const Graph& graph, const Node& node) {
  const Value& y = Out(graph, node);
  const SliceView view = SliceOf(node, In(graph, node));
  return MakeStridedCopy(y.type.shape, view.strides, LogicalStrides(y), y.type.dtype, view.base);
}

StridedCopy SliceGradCopy(const Graph& graph, const Node& node) {
  const Value& dy = In(graph, node);
  const SliceView view = SliceOf(node, Out(graph, node));
  return MakeStridedCopy(dy.type.shape, LogicalStrides(dy), view.strides, dy.type.dtype, 0,
                         view.base);
}

StridedCopy PadCopy(const Graph& graph, const Node& node) {
  const Value& x = In(graph, node);
  const Value& y = Out(graph, node);
  const std::vector<int64_t> pads = node.attrs.Ints("pads");
  const size_t rank = x.type.shape.size();
  const Shape from = LogicalStrides(x);
  const Shape to = LogicalStrides(y);
  Shape dims(rank);
  int64_t from_base = 0;
  int64_t to_base = 0;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t skip = std::max<int64_t>(-pads[d], 0);  // cut off the input's front
    const int64_t lead = std::max<int64_t>(pads[d], 0);
    dims[d] = std::max<int64_t>(std::min(x.type.shape[d] - skip, y.type.shape[d] - lead), 0);
    from_base += skip * from[d];
    to_base += lead * to[d];
  }
  return MakeStridedCopy(dims, from, to, x.type.dtype, from_base, to_base);
}

}  // namespace ebb::device
