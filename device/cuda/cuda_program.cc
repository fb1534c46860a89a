// Compiling a graph and enqueuing its kernels, node by node or as a CUDA graph.
#include "device/cuda/cuda_program.h"

#include <exception>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "device/common/node_kernel.h"
#include "device/cuda/low_storage.h"
#include "device/cuda/rounded.h"

namespace ebb::device::cuda {
namespace {

// Of a node with operands of 16 bits.
absl::StatusOr<CudaKernel> MakeLow(const graph::Graph& graph, const graph::Node& node,
                                   const KernelMaker& make) {
  return TakesLow(graph, node) ? make(graph, node) : MakeRounded(graph, node, make);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CudaProgram>> CudaProgram::Make(const graph::Graph& graph,
                                                               const CudaConfig& config) {
  std::unique_ptr<CudaProgram> program(new CudaProgram);
  program->steps_.reserve(graph.nodes.size());
  for (const graph::Node& node : graph.nodes) {
    const KernelMaker make = config.find_kernel(node.op->name);
    EBB_ASSIGN_OR_RETURN(CudaKernel kernel, KernelOf(graph, node, "cuda", make, MakeLow));
    program->steps_.push_back({.name = InWords(node),
                               .kernel = std::move(kernel),
                               .in = {node.inputs.begin(), node.inputs.end()},
                               .out = {node.outputs.begin(), node.outputs.end()}});
  }
  if (config.graphs) {
    program->graphs_ = std::make_unique<GraphCache>(config.api, config.max_graphs);
  }
  return program;
}

absl::Status CudaProgram::Launch(const LaunchOn& on, const Bindings& bindings, int first,
                                 int last) const {
  EBB_CHECK(first >= 0 && last < static_cast<int>(steps_.size()));
  const auto enqueue = [&] { return Enqueue(on, bindings, first, last); };
  if (graphs_ == nullptr || first >= last) return enqueue();  // one kernel is launched as quickly
  MakeKey(on, bindings, first, last);
  return graphs_->Run(on.stream, *on.scratch, on.number, on.progress, enqueue);
}

void CudaProgram::MakeKey(const LaunchOn& on, const Bindings& bindings, int first, int last) const {
  std::vector<const void*>& key = *on.scratch;
  key.clear();
  key.push_back(steps_.data() + first);
  key.push_back(steps_.data() + last);
  key.push_back(on.stream);
  for (int i = first; i <= last; ++i) {
    const Step& step = steps_[static_cast<size_t>(i)];
    for (const ValueId id : step.in)
      key.push_back(id.valid() ? bindings.values[id.index()] : nullptr);
    for (const ValueId id : step.out)
      key.push_back(id.valid() ? bindings.values[id.index()] : nullptr);
    if (step.kernel.workspace > Bytes(0)) {
      key.push_back(bindings.workspaces[static_cast<size_t>(i)]);
    }
  }
}

absl::Status CudaProgram::Enqueue(const LaunchOn& on, const Bindings& bindings, int first,
                                  int last) const {
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
      absl::Status status = step.kernel.enqueue(cuda::Launch{.stream = on.stream}, args);
      if (!status.ok()) return Annotate(status, step.name);
    } catch (const std::exception& error) {  // from a vendor's library
      return absl::InternalError(absl::StrCat(step.name, ": ", error.what()));
    }
  }
  return absl::OkStatus();
}

}  // namespace ebb::device::cuda
