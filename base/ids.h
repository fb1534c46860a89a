// Strong identifiers: a JobId cannot be passed where a NodeId is meant.
#pragma once

#include <compare>
#include <cstdint>
#include <ostream>
#include <utility>

namespace ebb {

template <class Tag, class Rep = int32_t>
class StrongId {
 public:
  constexpr StrongId() = default;  // invalid
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr bool valid() const { return value_ >= 0; }
  // For indexing vectors; call only on a valid id.
  constexpr size_t index() const { return static_cast<size_t>(value_); }

  constexpr auto operator<=>(const StrongId&) const = default;
  template <class H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& os, StrongId id) { return os << id.value_; }

 private:
  Rep value_ = -1;
};

using JobId = StrongId<struct JobIdTag, int64_t>;
using LaneId = StrongId<struct LaneIdTag>;
using NodeId = StrongId<struct NodeIdTag>;    // index into Graph::nodes
using ValueId = StrongId<struct ValueIdTag>;  // index into Graph::values

}  // namespace ebb
