// Where a pool's bytes come from: address ranges that never move, backed by granules on demand.
// Implemented by devices (virtual memory on cpu, cuMem* on cuda, nothing on sim).
#pragma once

#include "absl/status/statusor.h"
#include "base/units.h"

namespace ebb::memory {

class GranuleSource {
 public:
  virtual ~GranuleSource() = default;
  virtual Bytes granule() const = 0;
  // A range of addresses without memory behind it. kResourceExhausted when none is to be had.
  virtual absl::StatusOr<char*> Reserve(Bytes bytes) = 0;
  virtual void Unreserve(char* base, Bytes bytes) = 0;
  // Puts memory behind [base+offset, +bytes), which becomes readable and writable (contents zero on
  // cpu, undefined on cuda). Multiples of the granule. kResourceExhausted when the device has no
  // more.
  virtual absl::Status Commit(char* base, Bytes offset, Bytes bytes) = 0;
  // Takes it away again; touching the range afterwards faults.
  virtual void Decommit(char* base, Bytes offset, Bytes bytes) = 0;
};

}  // namespace ebb::memory
