// Host kernels, shared by `ref` and `cpu`: a kernel is prepared once a node and then run on
// pointers.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/op.h"

namespace ebb::device {

// Pointers of one execution. `in[i]` is null for an absent optional input.
struct KernelArgs {
  absl::Span<void* const> in;
  absl::Span<void* const> out;
  void* workspace = nullptr;
};

struct Kernel {
  std::function<absl::Status(const KernelArgs&)> run;
  Bytes workspace;
};

// Chooses and prepares the kernel of a node. The node's types and attributes have been verified.
using KernelFactory = absl::StatusOr<Kernel> (*)(const graph::Graph& graph,
                                                 const graph::Node& node);
struct KernelRow {
  absl::string_view op;
  KernelFactory make;
};

}  // namespace ebb::device
