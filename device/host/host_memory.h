// The granule source of devices whose memory is the host's: anonymous mappings that are given pages
// and lose them again without moving. Thread-safe (it has no state).
#pragma once

#include "memory/granules.h"

namespace ebb::device {

class HostGranules final : public memory::GranuleSource {
 public:
  Bytes granule() const override { return KiB(64); }
  absl::StatusOr<char*> Reserve(Bytes bytes) override;
  void Unreserve(char* base, Bytes bytes) override;
  absl::Status Commit(char* base, Bytes offset, Bytes bytes) override;
  void Decommit(char* base, Bytes offset, Bytes bytes) override;
};

// Memory of the host in whole granules, and without any.
enum class HostBacking { kMemory, kAddresses };
absl::StatusOr<char*> AllocateHostMemory(Bytes bytes, HostBacking backing);
void FreeHostMemory(char* memory, Bytes bytes);

// What this process may use of the machine's memory: the physical memory or, when it is smaller,
// the limit of its control group.
Bytes UsableHostMemory();

}  // namespace ebb::device
