// Addresses of a GPU and the memory behind them, by the driver's virtual-memory calls. Memory is
// taken from the driver a granule at a time and kept when it is unmapped, so that what was had once
// can be had again. Thread-safe. Private to cuda_api.cc.
#pragma once

#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/units.h"
#include "device/cuda/cuda_status.h"

namespace ebb::device::cuda {

// The driver's calls.
struct VirtualMemoryCalls;

class VirtualMemory {
 public:
  // Unavailable when the driver or the GPU has no such calls.
  static absl::StatusOr<std::unique_ptr<VirtualMemory>> Make(int ordinal);
  ~VirtualMemory();  // what is still mapped stays so until the process ends
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  Bytes granule() const { return granule_; }
  Bytes taken() const;  // from the driver, mapped or not
  absl::StatusOr<char*> Reserve(Bytes bytes);
  absl::Status Unreserve(char* base, Bytes bytes);
  absl::Status Map(char* address, Bytes bytes);
  absl::Status Unmap(char* address, Bytes bytes);

 private:
  VirtualMemory(std::unique_ptr<const VirtualMemoryCalls> calls, int ordinal, Bytes granule);

  absl::Status MapGranule(char* address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status UnmapGranule(char* address) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const std::unique_ptr<const VirtualMemoryCalls> calls_;
  const CUmemAllocationProp place_;
  const Bytes granule_;
  mutable Mutex mu_;
  absl::flat_hash_map<char*, CUmemGenericAllocationHandle> mapped_ ABSL_GUARDED_BY(mu_);
  std::vector<CUmemGenericAllocationHandle> unmapped_ ABSL_GUARDED_BY(mu_);
};

}  // namespace ebb::device::cuda
