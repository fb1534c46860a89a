// A compiled graph of a host device: the prepared kernel of each node and where its operands are in
// the bindings, so that running it allocates nothing. Immutable; may run on many threads at once.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "device/device.h"
#include "device/kernel.h"

namespace ebb::device {

class HostProgram final : public Program {
 public:
  // `find` gives the factory of an op's kernel, null when `kind` has none.
  static absl::StatusOr<std::unique_ptr<HostProgram>> Make(
      const graph::Graph& graph, absl::string_view kind,
      absl::FunctionRef<KernelFactory(absl::string_view op)> find);

  Bytes Workspace(NodeId node) const override { return steps_[node.index()].kernel.workspace; }
  // Runs the nodes first..last in order; the first failure, with the node's name, ends it.
  absl::Status Run(const Bindings& bindings, int first, int last) const;

 private:
  struct Step {
    std::string name;
    Kernel kernel;
    absl::InlinedVector<ValueId, 6> in;
    absl::InlinedVector<ValueId, 4> out;
  };
  std::vector<Step> steps_;
};

}  // namespace ebb::device
