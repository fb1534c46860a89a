// Which bag every index is in: what gradients of embedding bags look up first.
#pragma once

#include "base/status.h"
#include "device/common/look_up.h"
#include "device/cuda/fill.h"
#include "device/cuda/launch.h"

namespace ebb::device::cuda {

// What the gradient needs to know of a bag.
struct BagRange {
  EBB_INLINE bool Has(int64_t i) const { return i >= begin && i < end; }
  int32_t begin, end;
  float scale;
};

// Offsets may be in any order, and an index then in several bags: `unordered` becomes 1.
template <class I>
struct LookAtBags {
  EBB_INLINE void operator()(int64_t b) const {
    const Bags::Bag bag = bags.At(offsets, b);
    ranges[b] = {static_cast<int32_t>(bag.begin), static_cast<int32_t>(bag.end), bag.scale};
    if (b > 0 && bag.begin < bags.Clamped(offsets[b - 1])) *unordered = 1;
  }
  Bags bags;
  const I* offsets;
  BagRange* ranges;
  int32_t* unordered;
};

// The first bag that an index is in, -1 where it is in none.
struct FindBag {
  EBB_INLINE void operator()(int64_t i) const {
    if (*unordered == 0) {
      const int64_t bag = LastBegunAt(i);
      bag_of[i] = bag >= 0 && ranges[bag].Has(i) ? static_cast<int32_t>(bag) : -1;
      return;
    }
    int32_t bag = 0;
    while (bag < bags && !ranges[bag].Has(i)) ++bag;
    bag_of[i] = bag < bags ? bag : -1;
  }
  // Of bags in order the last that begins at i or before.
  EBB_INLINE int64_t LastBegunAt(int64_t i) const {
    int64_t low = 0;
    int64_t high = bags;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (ranges[middle].begin <= i) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low - 1;
  }
  const BagRange* ranges;
  const int32_t* unordered;
  int32_t* bag_of;
  int64_t bags;
};

// The row that an index means, -1 where it is in no bag. Without bags `bag_of` is nullptr.
template <class I>
struct RowOfBagged {
  EBB_INLINE int64_t operator()(int64_t i) const {
    return bag_of != nullptr && bag_of[i] < 0 ? -1 : RowOf(indices[i], rows);
  }
  const I* indices;
  const int32_t* bag_of;
  int64_t rows;
};

// Where that is kept, in a workspace.
struct FoundBags {
  FoundBags(const Bags& s, void* workspace)
      : ranges(static_cast<BagRange*>(workspace)),
        bag_of(reinterpret_cast<int32_t*>(ranges + s.bags)),
        unordered(bag_of + s.indices) {}
  static Bytes Size(const Bags& s) {
    return Bytes(s.bags * static_cast<int64_t>(sizeof(BagRange)) +
                 (s.indices + 1) * static_cast<int64_t>(sizeof(int32_t)));
  }
  BagRange* ranges;    // of each bag
  int32_t* bag_of;     // each index
  int32_t* unordered;  // whether offsets are out of order
};

template <class I>
absl::Status FindBags(const Launch& at, const Bags& s, const I* offsets, const FoundBags& found) {
  EBB_RETURN_IF_ERROR(Fill(at, found.unordered, 1, 0));
  EBB_RETURN_IF_ERROR(
      ForEach(at, s.bags, LookAtBags<I>{s, offsets, found.ranges, found.unordered}));
  return ForEach(at, s.indices, FindBag{found.ranges, found.unordered, found.bag_of, s.bags});
}

}  // namespace ebb::device::cuda
