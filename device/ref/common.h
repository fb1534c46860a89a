// What the reference kernels share: choosing the element type, and walking over N-d index spaces.
#pragma once

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "device/kernel.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace ebb::device::ref {

using graph::DType;
using graph::Graph;
using graph::Node;
using graph::NumElements;
using graph::Shape;
using graph::StridesOf;

// ---- Operands.

inline const graph::TensorType& InType(const Graph& graph, const Node& node, size_t i) {
  return graph.value(node.inputs[i]).type;
}
inline const graph::TensorType& OutType(const Graph& graph, const Node& node, size_t i = 0) {
  return graph.value(node.outputs[i]).type;
}
inline bool HasInput(const Node& node, size_t i) {
  return i < node.inputs.size() && node.inputs[i].valid();
}

// Null when the optional input is absent.
template <class T>
const T* In(const KernelArgs& args, size_t i) {
  return i < args.in.size() ? static_cast<const T*>(args.in[i]) : nullptr;
}
// An input that the kernel writes (parameters, slots, running statistics).
template <class T>
T* InOut(const KernelArgs& args, size_t i) {
  return i < args.in.size() ? static_cast<T*>(args.in[i]) : nullptr;
}
template <class T>
T* Out(const KernelArgs& args, size_t i = 0) {
  return static_cast<T*>(args.out[i]);
}

// ---- Element types: the kernel that runs body(T(), args).

template <class T, class Body>
absl::StatusOr<Kernel> KernelOf(Body body) {
  auto run = [body](const KernelArgs& args) {
    body(T(), args);
    return absl::OkStatus();
  };
  return Kernel{.run = std::move(run), .workspace = Bytes(0)};
}

inline absl::Status NoKernelFor(DType dtype) {
  return absl::UnimplementedError(
      absl::StrCat("the reference device has no kernel for elements of type ", Name(dtype)));
}

// T = float or double.
template <class Body>
absl::StatusOr<Kernel> ForFloat(DType dtype, Body body) {
  if (dtype == DType::kF32) return KernelOf<float>(body);
  if (dtype == DType::kF64) return KernelOf<double>(body);
  return NoKernelFor(dtype);
}

// T = float, double, int32_t or int64_t.
template <class Body>
absl::StatusOr<Kernel> ForNumber(DType dtype, Body body) {
  if (dtype == DType::kI32) return KernelOf<int32_t>(body);
  if (dtype == DType::kI64) return KernelOf<int64_t>(body);
  return ForFloat(dtype, body);
}

// T = an unsigned integer of the elements' size: for ops that only move them.
template <class Body>
absl::StatusOr<Kernel> ForMove(DType dtype, Body body) {
  switch (SizeOf(dtype).count()) {
    case 1:
      return KernelOf<uint8_t>(body);
    case 4:
      return KernelOf<uint32_t>(body);
    case 8:
      return KernelOf<uint64_t>(body);
    default:
      return NoKernelFor(dtype);
  }
}

// ---- Index spaces.

// Strides of a tensor of shape `from` seen as `to`, which it broadcasts to: 0 along broadcast axes.
Shape BroadcastStrides(const Shape& from, const Shape& to);

// Visits all positions of `shape` in row-major order: f(i, at), where i counts them and at[k] is
// the offset under strides[k].
template <size_t N, class F>
void Walk(const Shape& shape, const std::array<Shape, N>& strides, F f) {
  const int64_t n = NumElements(shape);
  Shape index(shape.size(), 0);
  std::array<int64_t, N> at{};
  for (int64_t i = 0; i < n; ++i) {
    f(i, at);
    for (size_t d = shape.size(); d-- > 0;) {
      for (size_t k = 0; k < N; ++k) at[k] += strides[k][d];
      if (++index[d] < shape[d]) break;
      for (size_t k = 0; k < N; ++k) at[k] -= strides[k][d] * shape[d];
      index[d] = 0;
    }
  }
}

// y[i] = f(a[i], b[i]) for tensors a and b of type T under broadcasting; y is of type `Y`, or T.
template <class Y = void, class F>
auto BroadcastBody(const Graph& graph, const Node& node, F f) {
  const Shape shape = OutType(graph, node).shape;
  const std::array<Shape, 2> strides = {BroadcastStrides(InType(graph, node, 0).shape, shape),
                                        BroadcastStrides(InType(graph, node, 1).shape, shape)};
  return [=](auto zero, const KernelArgs& args) {
    using T = decltype(zero);
    const T* a = In<T>(args, 0);
    const T* b = In<T>(args, 1);
    auto* y = Out<std::conditional_t<std::is_void_v<Y>, T, Y>>(args);
    Walk(shape, strides,
         [&](int64_t i, const std::array<int64_t, 2>& at) { y[i] = f(a[at[0]], b[at[1]]); });
  };
}

// A shape around one axis: element (o, a, i) is at (o * size + a) * inner + i.
struct AxisSplit {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
  int64_t at(int64_t o, int64_t a, int64_t i) const { return (o * size + a) * inner + i; }
};
AxisSplit SplitAt(const Shape& shape, size_t axis);

// Copies the input's bytes to the output unless they are the same bytes: the kernel of views.
absl::StatusOr<Kernel> CopyKernel(const Graph& graph, const Node& node);

}  // namespace ebb::device::ref
