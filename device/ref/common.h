// What the reference kernels share: choosing float or double, and walking over N-d index spaces.
#pragma once

#include <cstdint>
#include <utility>

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

inline const graph::TensorType& InType(const Graph& graph, const Node& node, size_t i) {
  return graph.value(node.inputs[i]).type;
}
inline const graph::TensorType& OutType(const Graph& graph, const Node& node, size_t i = 0) {
  return graph.value(node.outputs[i]).type;
}
inline bool HasInput(const Node& node, size_t i) {
  return i < node.inputs.size() && node.inputs[i].valid();
}

template <class T>
const T* In(const KernelArgs& args, size_t i) {
  return static_cast<const T*>(args.in[i]);
}
// An input that the kernel writes (parameters, slots, running statistics).
template <class T>
T* InOut(const KernelArgs& args, size_t i) {
  return static_cast<T*>(args.in[i]);
}
template <class T>
T* Out(const KernelArgs& args, size_t i = 0) {
  return static_cast<T*>(args.out[i]);
}

// The kernel that runs body(T(), args) with T = float or double as `dtype` says.
template <class Body>
absl::StatusOr<Kernel> ForFloat(DType dtype, Body body) {
  if (dtype == DType::kF32) {
    return Kernel{
        .run = [body](const KernelArgs& args) { return body(float(), args), absl::OkStatus(); },
        .workspace = Bytes(0)};
  }
  if (dtype == DType::kF64) {
    return Kernel{
        .run = [body](const KernelArgs& args) { return body(double(), args), absl::OkStatus(); },
        .workspace = Bytes(0)};
  }
  return absl::UnimplementedError(
      absl::StrCat("the reference device computes it for f32 and f64 only, not ", Name(dtype)));
}

// Copies the input's bytes to the output unless they are the same bytes: the kernel of views.
absl::StatusOr<Kernel> CopyKernel(const Graph& graph, const Node& node);

}  // namespace ebb::device::ref
