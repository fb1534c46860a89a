#include "device/check/clocks.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::device {

Clocks::Time& Clocks::Of(StreamId stream) {
  EBB_CHECK(stream.valid());
  if (stream.index() >= streams_.size()) streams_.resize(stream.index() + 1);
  return streams_[stream.index()];
}

int64_t Clocks::At(const Time& time, StreamId stream) {
  return stream.index() < time.size() ? time[stream.index()] : 0;
}

void Clocks::Join(Time* time, const Time& other) {
  if (time->size() < other.size()) time->resize(other.size(), 0);
  for (size_t s = 0; s < other.size(); ++s) (*time)[s] = std::max((*time)[s], other[s]);
}

Clocks::Time Clocks::Now(StreamId stream) {
  Time& time = Of(stream);
  Join(&time, host_);
  return time;
}

Operation Clocks::Enqueue(StreamId stream) {
  Time& time = Of(stream);
  Join(&time, host_);
  if (time.size() <= stream.index()) time.resize(stream.index() + 1, 0);
  return {stream, ++time[stream.index()]};
}

void Clocks::Record(StreamId stream, EventId event) { events_[event] = Now(stream); }

void Clocks::Wait(StreamId stream, EventId event) {
  const auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  Join(&Of(stream), it->second);
}

void Clocks::SeenComplete(EventId event) {
  const auto it = events_.find(event);
  EBB_CHECK(it != events_.end());
  Join(&host_, it->second);
}

void Clocks::SeenComplete(const Time& time) { Join(&host_, time); }

void Clocks::Forget(EventId event) { events_.erase(event); }

bool Clocks::Before(const Operation& earlier, StreamId stream) const {
  if (KnownComplete(earlier)) return true;
  return stream.index() < streams_.size() &&
         earlier.number <= At(streams_[stream.index()], earlier.stream);
}

bool Clocks::KnownComplete(const Operation& operation) const {
  return operation.number <= At(host_, operation.stream);
}

}  // namespace ebb::device
