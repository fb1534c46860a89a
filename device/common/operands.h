// What kernels of every device ask of a node: operands, types, physical shapes. Free functions
// without state.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "device/kernel.h"
#include "graph/graph.h"

namespace ebb::device {

using graph::Attrs;
using graph::DType;
using graph::Graph;
using graph::Layout;
using graph::Node;
using graph::NumElements;
using graph::Shape;
using graph::TensorType;
using graph::Value;

inline bool HasInput(const Node& node, size_t i) {
  return i < node.inputs.size() && node.inputs[i].valid();
}
inline const Value& In(const Graph& graph, const Node& node, size_t i = 0) {
  return graph.value(node.inputs[i]);
}
inline const Value& Out(const Graph& graph, const Node& node, size_t i = 0) {
  return graph.value(node.outputs[i]);
}
inline int64_t OutElements(const Graph& graph, const Node& node, size_t i = 0) {
  return NumElements(Out(graph, node, i).type.shape);
}

template <class T>
const T* InPtr(const KernelArgs& args, size_t i = 0) {
  return i < args.in.size() ? static_cast<const T*>(args.in[i]) : nullptr;
}
template <class T>
T* MutablePtr(const KernelArgs& args, size_t i) {
  return i < args.in.size() ? static_cast<T*>(args.in[i]) : nullptr;
}
template <class T>
T* OutPtr(const KernelArgs& args, size_t i = 0) {
  return static_cast<T*>(args.out[i]);
}

// Unimplemented unless every float operand is f32 (integer operands are the kernel's matter).
absl::Status RequireF32(const Graph& graph, const Node& node);
// Unimplemented: this kernel does not take the element type.
absl::Status BadType(const Node& node, DType dtype);
// Unimplemented when an operand of rank above 1 is channels last: the kernel reads plain order
// only.
absl::Status RequirePlain(const Graph& graph, const Node& node);
// Unimplemented when an operand lies in another order than the result: elements would not meet.
absl::Status RequireOneLayout(const Graph& graph, const Node& node);

// The dimensions in memory order: of a channels-last value N, S..., C.
Shape PhysicalShape(const Shape& shape, Layout layout);
inline Shape PhysicalShape(const Value& value) {
  return PhysicalShape(value.type.shape, value.layout);
}
// Where a logical axis is in the physical shape.
int64_t PhysicalAxis(int64_t axis, size_t rank, Layout layout);
// Both orders are the same bytes: at most one channel, or no spatial extent.
bool LayoutFree(const Shape& shape);

}  // namespace ebb::device
