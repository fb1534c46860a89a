// The memory of a simulated device: addresses without anything behind them, and a count of the
// bytes that are committed. Touching them faults. Thread-safe.
#pragma once

#include <map>

#include "base/mutex.h"
#include "memory/granules.h"

namespace ebb::device {

class SimGranules final : public memory::GranuleSource {
 public:
  // `memory`: what the device has.
  SimGranules(Bytes memory, Bytes granule) : memory_(memory), granule_(granule) {}

  Bytes granule() const override { return granule_; }
  absl::StatusOr<char*> Reserve(Bytes bytes) override;
  void Unreserve(char* base, Bytes bytes) override;
  absl::Status Commit(char* base, Bytes offset, Bytes bytes) override;
  void Decommit(char* base, Bytes offset, Bytes bytes) override;

  // Is it an address of the device?
  bool Holds(const void* address) const;

 private:
  absl::Status CheckRange(Bytes offset, Bytes bytes) const;

  const Bytes memory_;
  const Bytes granule_;
  mutable Mutex mu_;
  Bytes committed_ ABSL_GUARDED_BY(mu_);
  std::map<const char*, Bytes> ranges_ ABSL_GUARDED_BY(mu_);  // reserved, by base
};

}  // namespace ebb::device
