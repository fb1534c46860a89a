// Host memory that a device copies from and to: batches staged for it, state on its way. Thread
// rule: as plain memory.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "device/host/host_memory.h"

namespace ebb::runtime {

class HostBuffer {
 public:
  enum class Backing {
    kMemory,     // zero at first; pages come when they are touched
    kAddresses,  // nothing: touching it faults. For devices whose copies move no bytes
  };
  // ResourceExhausted when there is none to be had.
  static absl::StatusOr<std::unique_ptr<HostBuffer>> Create(Bytes bytes, Backing backing);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;

  char* base() const { return base_; }

 private:
  HostBuffer(char* base, Bytes bytes) : base_(base), bytes_(bytes) {}
  device::HostGranules granules_;
  char* const base_;
  const Bytes bytes_;
};

}  // namespace ebb::runtime
