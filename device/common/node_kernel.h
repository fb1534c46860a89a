// What the programs of all devices do for each node: find its kernel, and its operands' bytes.
#pragma once

#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status.h"
#include "device/common/rounded.h"
#include "device/device.h"

namespace ebb::device {

using Pointers = absl::InlinedVector<void*, 16>;

// Null where an optional operand is absent.
inline void Lookup(absl::Span<const ValueId> ids, const Bindings& bindings, Pointers* pointers) {
  pointers->clear();
  for (const ValueId id : ids) {
    pointers->push_back(id.valid() ? bindings.values[id.index()] : nullptr);
  }
}

inline std::string InWords(const graph::Node& node) {
  return absl::StrCat("node '", node.name, "'");
}

// The kernel that `make` prepares; where operands have 16 bits, that `rounded` makes of it. Errors
// name the node: Unimplemented when `make` is empty, or `make`'s own.
template <class Make, class Rounded>
auto KernelOf(const graph::Graph& graph, const graph::Node& node, absl::string_view kind,
              const Make& make, const Rounded& rounded) -> decltype(make(graph, node)) {
  if (!make) {
    return absl::UnimplementedError(
        absl::StrCat(InWords(node), ": op ", node.op->name, " has no kernel on device ", kind));
  }
  auto kernel = TouchesLow(graph, node) ? rounded(graph, node, make) : make(graph, node);
  if (!kernel.ok()) return Annotate(kernel.status(), InWords(node));
  return kernel;
}

}  // namespace ebb::device
