// Finds accesses to the same bytes that nothing orders, from what is enqueued, recorded, waited for
// and seen complete, and accesses to addresses without memory. Pure bookkeeping: no device, no
// threads. Not thread-safe.
#pragma once

#include <string>

#include "device/check/access_map.h"
#include "device/check/clocks.h"
#include "device/check/memory_map.h"

namespace ebb::device {

class RaceDetector {
 public:
  Clocks& clocks() { return clocks_; }
  MemoryMap& memory() { return memory_; }

  // An access of the newest operation of its stream.
  void Touch(const AddressRange& range, const Access& access);
  // The bytes are about to be taken away; `how` says in what way.
  void TakeAway(const AddressRange& range, const char* how);

  // The first fault since the last call, in words; empty when there was none.
  std::string TakeFault();

 private:
  Clocks clocks_;
  AccessMap accesses_;
  MemoryMap memory_;
  std::string fault_;
};

}  // namespace ebb::device
