// Who touched which bytes last: for every range of addresses the newest write and the reads since,
// so that an access can be held against those that it must come after. What the host knows to be
// complete is forgotten, so the map is as large as the work that is outstanding. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "device/check/clocks.h"

namespace ebb::device {

// [begin, end)
struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};
AddressRange RangeOf(const void* address, Bytes bytes);

struct Access {
  Operation operation;
  bool writes = false;
  std::shared_ptr<const std::string> what;  // "node 'h1' reads 'x'"
};

class AccessMap {
 public:
  using Conflict = absl::FunctionRef<void(const AddressRange& shared, const Access& earlier)>;

  // Enters `access` (the newest operation of its stream). `conflict` gets what it is not ordered
  // after: the newest write and, if it writes itself, the reads since.
  void Enter(const AddressRange& range, const Access& access, const Clocks& clocks,
             Conflict conflict);
  // The bytes are taken away: `conflict` gets what the host does not know to be complete.
  void Erase(const AddressRange& range, const Clocks& clocks, Conflict conflict);

  size_t segments() const { return segments_.size(); }
  void CheckInvariants() const;

 private:
  struct Segment {
    uintptr_t end = 0;
    Access write;                          // of an invalid stream: none
    absl::InlinedVector<Access, 2> reads;  // since; none of them before another
  };
  using Segments = std::map<uintptr_t, Segment>;  // by begin; disjoint

  // Makes `at` a border if it lies within a segment.
  void Split(uintptr_t at);
  void EnterWrite(const AddressRange& range, const Access& access, const Clocks& clocks,
                  Conflict conflict);
  void EnterRead(const AddressRange& range, const Access& access, const Clocks& clocks,
                 Conflict conflict);
  // Forgets what is known to be complete, when the map has doubled since the last time.
  void MaybePrune(const Clocks& clocks);

  Segments segments_;
  size_t prune_at_ = 1024;
};

}  // namespace ebb::device
