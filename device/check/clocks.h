// What is ordered before what on a device, by vector clocks over streams. The operations of a
// stream are numbered; a clock says, for each stream, up to which number everything has happened.
// The host has a clock of its own: what it has seen complete is before all that it enqueues then.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "device/device.h"

namespace ebb::device {

// One launch, copy or write.
struct Operation {
  StreamId stream;
  int64_t number = 0;
};

class Clocks {
 public:
  // The next operation of a stream is being enqueued.
  Operation Enqueue(StreamId stream);
  void Record(StreamId stream, EventId event);
  void Wait(StreamId stream, EventId event);
  // The host has seen that the event is complete.
  void SeenComplete(EventId event);
  void Forget(EventId event);
  // What the stream has been given up to now; and the host has seen all of that complete.
  using Time = std::vector<int64_t>;  // by stream
  Time Now(StreamId stream);
  void SeenComplete(const Time& time);

  // True if it happens before what is enqueued on `stream` next (and before its newest operation).
  bool Before(const Operation& earlier, StreamId stream) const;
  // True if the host has seen that it is complete, so that it is before all that is to come.
  bool KnownComplete(const Operation& operation) const;

 private:
  Time& Of(StreamId stream);
  static int64_t At(const Time& time, StreamId stream);
  static void Join(Time* time, const Time& other);

  std::vector<Time> streams_;  // by stream
  absl::flat_hash_map<EventId, Time> events_;
  Time host_;
};

}  // namespace ebb::device
