// A compiled graph of the CUDA device: the prepared kernel of each node, where its operands are in
// the bindings, and the CUDA graphs of what has been launched of it. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "device/cuda/cuda_device.h"
#include "device/cuda/graph_cache.h"
#include "device/device.h"

namespace ebb::device::cuda {

// Where a launch goes.
struct LaunchOn {
  Stream stream = nullptr;
  int64_t number = 0;  // of the launch on its stream
  std::shared_ptr<StreamProgress> progress;
  std::vector<const void*>* scratch = nullptr;  // whose contents do not matter
};

class CudaProgram final : public Program {
 public:
  // Unimplemented names the node and op without a kernel.
  static absl::StatusOr<std::unique_ptr<CudaProgram>> Make(const graph::Graph& graph,
                                                           const CudaConfig& config);

  Bytes Workspace(NodeId node) const override { return steps_[node.index()].kernel.workspace; }
  // Enqueues the nodes first..last; the first refusal, with the node's name, ends it.
  absl::Status Launch(const LaunchOn& on, const Bindings& bindings, int first, int last) const;
  const GraphCache* graphs() const { return graphs_.get(); }  // null: does without

 private:
  struct Step {
    std::string name;
    CudaKernel kernel;
    absl::InlinedVector<ValueId, 6> in;
    absl::InlinedVector<ValueId, 4> out;
  };

  CudaProgram() = default;
  absl::Status Enqueue(const LaunchOn& on, const Bindings& bindings, int first, int last) const;
  // What the launch's graph depends on.
  void MakeKey(const LaunchOn& on, const Bindings& bindings, int first, int last) const;

  std::vector<Step> steps_;
  std::unique_ptr<GraphCache> graphs_;
};

}  // namespace ebb::device::cuda
