// What kernels found wrong with their data: slots on the GPU that they write, one a stream, copied
// to the host before an event where work since the event before may have found something. Host
// code of the device only. Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "base/mutex.h"
#include "device/cuda/api.h"
#include "device/cuda/kernel.h"

namespace ebb::device::cuda {

// Whether a kernel of the node may call Fail: only indices and labels, which are whole numbers, can
// be out of range.
bool MayFault(const Graph& graph, const Node& node);

class Faults {
 public:
  // Takes one granule of the GPU's memory and clears it on `stream`.
  static absl::StatusOr<std::unique_ptr<Faults>> Make(std::shared_ptr<Api> api, Stream stream);
  ~Faults();
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  Bytes bytes() const { return granule_; }

  // A slot on the GPU, clear; null when there are too many streams. Given back clear.
  FaultSlot* TakeSlot();
  void GiveSlot(FaultSlot* slot);

  // Copies a stream's slot to the host and clears it, in the order of the stream. The copy may be
  // read when the stream is that far, and is given back then.
  absl::StatusOr<const FaultSlot*> Read(Stream stream, FaultSlot* slot);
  void GiveCopy(const FaultSlot* copy);

  // Nodes by their names ("node 'conv1'"): the number of the first one, by which faults name them.
  int32_t AddNodes(std::vector<std::string> names);
  void RemoveNodes(int32_t first);
  // OK when there was no fault.
  absl::Status StatusOf(const FaultSlot& fault) const;

 private:
  Faults(std::shared_ptr<Api> api, char* slots);

  const std::shared_ptr<Api> api_;
  const Bytes granule_;
  char* const slots_;
  mutable Mutex mu_;
  std::vector<FaultSlot*> free_slots_ ABSL_GUARDED_BY(mu_);
  std::vector<char*> host_blocks_ ABSL_GUARDED_BY(mu_);  // page-locked
  std::vector<FaultSlot*> free_copies_ ABSL_GUARDED_BY(mu_);
  int64_t next_node_ ABSL_GUARDED_BY(mu_) = 0;
  absl::btree_map<int32_t, std::vector<std::string>> names_ ABSL_GUARDED_BY(mu_);  // by the first
};

}  // namespace ebb::device::cuda
