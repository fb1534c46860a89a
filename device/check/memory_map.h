// Which addresses of a granule source are reserved, and which of them have memory behind them. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>

#include "device/check/access_map.h"

namespace ebb::device {

class MemoryMap {
 public:
  void Reserve(const AddressRange& range);
  void Unreserve(const AddressRange& range);  // as it was reserved
  void Commit(const AddressRange& range);
  void Decommit(const AddressRange& range);
  // False if a byte of the range is reserved but not committed. True for memory from elsewhere.
  bool HasMemory(const AddressRange& range) const;

 private:
  using Ranges = std::map<uintptr_t, uintptr_t>;  // begin to end; disjoint
  Ranges reserved_;
  Ranges committed_;  // neighbours are one range
};

}  // namespace ebb::device
