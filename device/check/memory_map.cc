#include "device/check/memory_map.h"

#include <algorithm>
#include <iterator>

namespace ebb::device {
namespace {

// The range with the last begin that is not behind `at`; end() when there is none.
template <class Ranges>
auto LastFrom(Ranges& ranges, uintptr_t at) {
  auto it = ranges.upper_bound(at);
  return it == ranges.begin() ? ranges.end() : std::prev(it);
}

}  // namespace

void MemoryMap::Reserve(const AddressRange& range) { reserved_[range.begin] = range.end; }

void MemoryMap::Unreserve(const AddressRange& range) {
  Decommit(range);
  reserved_.erase(range.begin);
}

void MemoryMap::Commit(const AddressRange& range) {
  AddressRange all = range;
  auto it = LastFrom(committed_, range.begin);
  if (it == committed_.end() || it->second < range.begin) it = committed_.upper_bound(range.begin);
  while (it != committed_.end() && it->first <= range.end) {
    all = {std::min(all.begin, it->first), std::max(all.end, it->second)};
    it = committed_.erase(it);
  }
  committed_[all.begin] = all.end;
}

void MemoryMap::Decommit(const AddressRange& range) {
  auto it = LastFrom(committed_, range.begin);
  if (it == committed_.end() || it->second <= range.begin) it = committed_.lower_bound(range.begin);
  while (it != committed_.end() && it->first < range.end) {
    const AddressRange old{it->first, it->second};
    it = committed_.erase(it);
    if (old.begin < range.begin) committed_[old.begin] = range.begin;
    if (old.end > range.end) committed_[range.end] = old.end;
  }
}

bool MemoryMap::HasMemory(const AddressRange& range) const {
  // Reservations are disjoint: only the last one that begins before the range ends can reach it,
  // or those that begin within it.
  for (auto it = LastFrom(reserved_, range.end - 1); it != reserved_.end();) {
    if (it->second <= range.begin) return true;
    const AddressRange shared{std::max(range.begin, it->first), std::min(range.end, it->second)};
    const auto committed = LastFrom(committed_, shared.begin);
    if (committed == committed_.end() || committed->second < shared.end) return false;
    if (it == reserved_.begin()) return true;
    --it;
  }
  return true;
}

}  // namespace ebb::device
