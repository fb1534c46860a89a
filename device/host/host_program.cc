// Compiling and running a graph, node by node.
#include "device/host/host_program.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "device/common/node_kernel.h"
#include "device/host/rounded.h"

namespace ebb::device {
absl::StatusOr<std::unique_ptr<HostProgram>> HostProgram::Make(
    const graph::Graph& graph, absl::string_view kind,
    absl::FunctionRef<KernelFactory(absl::string_view op)> find) {
  auto program = std::make_unique<HostProgram>();
  program->steps_.reserve(graph.nodes.size());
  for (const graph::Node& node : graph.nodes) {
    const KernelFactory make = find(node.op->name);
    EBB_ASSIGN_OR_RETURN(Kernel kernel, KernelOf(graph, node, kind, make, MakeRounded));
    program->steps_.push_back({.name = InWords(node),
                               .kernel = std::move(kernel),
                               .in = {node.inputs.begin(), node.inputs.end()},
                               .out = {node.outputs.begin(), node.outputs.end()}});
  }
  return program;
}

absl::Status HostProgram::Run(const Bindings& bindings, int first, int last) const {
  EBB_CHECK(first >= 0 && last < static_cast<int>(steps_.size()));
  Pointers in, out;
  for (int i = first; i <= last; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    Lookup(step.in, bindings, &in);
    Lookup(step.out, bindings, &out);
    KernelArgs args{.in = in, .out = out};
    if (step.kernel.workspace > Bytes(0)) {
      args.workspace = bindings.workspaces[static_cast<size_t>(i)];
    }
    try {
      absl::Status status = step.kernel.run(args);
      if (!status.ok()) return Annotate(status, step.name);
    } catch (const std::exception& error) {  // from a vendor's library
      return absl::InternalError(absl::StrCat(step.name, ": ", error.what()));
    }
  }
  return absl::OkStatus();
}

}  // namespace ebb::device
