// Compiling and running a graph, node by node.
#include "device/host/host_program.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "device/host/bf16.h"

namespace ebb::device {
namespace {

using Pointers = absl::InlinedVector<void*, 16>;

void Lookup(absl::Span<const ValueId> ids, const Bindings& bindings, Pointers* pointers) {
  pointers->clear();
  for (ValueId id : ids) pointers->push_back(id.valid() ? bindings.values[id.index()] : nullptr);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostProgram>> HostProgram::Make(
    const graph::Graph& graph, absl::string_view kind,
    absl::FunctionRef<KernelFactory(absl::string_view op)> find) {
  auto program = std::make_unique<HostProgram>();
  program->steps_.reserve(graph.nodes.size());
  for (const graph::Node& node : graph.nodes) {
    const std::string where = absl::StrCat("node '", node.name, "'");
    const KernelFactory make = find(node.op->name);
    if (make == nullptr) {
      return absl::UnimplementedError(
          absl::StrCat(where, ": op ", node.op->name, " has no kernel on device ", kind));
    }
    absl::StatusOr<Kernel> kernel =
        TouchesBf16(graph, node) ? MakeRounded(graph, node, make) : make(graph, node);
    if (!kernel.ok()) return Annotate(kernel.status(), where);
    program->steps_.push_back({.name = where,
                               .kernel = *std::move(kernel),
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
