#include "device/check/access_map.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/check.h"

namespace ebb::device {

AddressRange RangeOf(const void* address, Bytes bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return {begin, begin + static_cast<uintptr_t>(bytes.count())};
}

void AccessMap::Split(uintptr_t at) {
  auto it = segments_.lower_bound(at);
  if (it == segments_.begin()) return;
  --it;  // begins before `at`
  if (it->second.end <= at) return;
  Segment upper = it->second;
  it->second.end = at;
  segments_.emplace(at, std::move(upper));
}

void AccessMap::Enter(const AddressRange& range, const Access& access, const Clocks& clocks,
                      Conflict conflict) {
  if (range.begin == range.end) return;
  Split(range.begin);
  Split(range.end);
  if (access.writes) {
    EnterWrite(range, access, clocks, conflict);
  } else {
    EnterRead(range, access, clocks, conflict);
  }
  MaybePrune(clocks);
}

void AccessMap::EnterWrite(const AddressRange& range, const Access& access, const Clocks& clocks,
                           Conflict conflict) {
  const StreamId stream = access.operation.stream;
  const auto first = segments_.lower_bound(range.begin);
  auto it = first;
  for (; it != segments_.end() && it->first < range.end; ++it) {
    const Segment& segment = it->second;
    const AddressRange shared{it->first, segment.end};
    if (segment.write.operation.stream.valid() && !clocks.Before(segment.write.operation, stream)) {
      conflict(shared, segment.write);
    }
    for (const Access& read : segment.reads) {
      if (!clocks.Before(read.operation, stream)) conflict(shared, read);
    }
  }
  it = segments_.erase(first, it);
  segments_.emplace_hint(it, range.begin, Segment{range.end, access, {}});
}

void AccessMap::EnterRead(const AddressRange& range, const Access& access, const Clocks& clocks,
                          Conflict conflict) {
  const StreamId stream = access.operation.stream;
  uintptr_t at = range.begin;  // up to here it is entered
  auto it = segments_.lower_bound(range.begin);
  while (at < range.end) {
    const bool gap = it == segments_.end() || it->first > at;
    if (gap) {
      const uintptr_t end = it == segments_.end() ? range.end : std::min(it->first, range.end);
      it = segments_.emplace_hint(it, at, Segment{end, {}, {}});
    }
    Segment& segment = it->second;
    if (segment.write.operation.stream.valid() && !clocks.Before(segment.write.operation, stream)) {
      conflict({it->first, segment.end}, segment.write);
    }
    // What comes after this read comes after those before it.
    const auto settled = [&](const Access& r) { return clocks.Before(r.operation, stream); };
    segment.reads.erase(std::remove_if(segment.reads.begin(), segment.reads.end(), settled),
                        segment.reads.end());
    segment.reads.push_back(access);
    at = segment.end;
    ++it;
  }
}

void AccessMap::Erase(const AddressRange& range, const Clocks& clocks, Conflict conflict) {
  if (range.begin == range.end) return;
  Split(range.begin);
  Split(range.end);
  const auto first = segments_.lower_bound(range.begin);
  auto it = first;
  for (; it != segments_.end() && it->first < range.end; ++it) {
    const AddressRange shared{it->first, it->second.end};
    const Access& write = it->second.write;
    if (write.operation.stream.valid() && !clocks.KnownComplete(write.operation)) {
      conflict(shared, write);
    }
    for (const Access& read : it->second.reads) {
      if (!clocks.KnownComplete(read.operation)) conflict(shared, read);
    }
  }
  segments_.erase(first, it);
}

void AccessMap::MaybePrune(const Clocks& clocks) {
  if (segments_.size() < prune_at_) return;
  const auto settled = [&](const Access& a) { return clocks.KnownComplete(a.operation); };
  for (auto it = segments_.begin(); it != segments_.end();) {
    Segment& segment = it->second;
    segment.reads.erase(std::remove_if(segment.reads.begin(), segment.reads.end(), settled),
                        segment.reads.end());
    if (segment.write.operation.stream.valid() && settled(segment.write)) segment.write = {};
    const bool empty = segment.reads.empty() && !segment.write.operation.stream.valid();
    it = empty ? segments_.erase(it) : std::next(it);
  }
  prune_at_ = std::max<size_t>(1024, 2 * segments_.size());
}

void AccessMap::CheckInvariants() const {
  uintptr_t end = 0;
  for (const auto& [begin, segment] : segments_) {
    EBB_CHECK(begin >= end && segment.end > begin);
    end = segment.end;
  }
}

}  // namespace ebb::device
