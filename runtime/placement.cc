#include "runtime/placement.h"

#include <algorithm>

#include "base/check.h"

namespace ebb::runtime {

Placement::Placement(const std::vector<Piece>& pieces) {
  Bytes end;
  for (const Piece& piece : pieces) {
    EBB_CHECK(piece.begin == end);
    end = piece.begin + piece.bytes;
    if (!segments_.empty() && segments_.back().on_host == piece.on_host) {
      segments_.back().end = end;
    } else {
      segments_.push_back({piece.begin, end, piece.on_host, piece.on_host ? Bytes(0) : device_});
    }
    (piece.on_host ? host_ : device_) += piece.bytes;
  }
}

Placement::Spot Placement::At(Bytes image_offset) const {
  const auto after =
      std::upper_bound(segments_.begin(), segments_.end(), image_offset,
                       [](Bytes offset, const Segment& segment) { return offset < segment.end; });
  EBB_CHECK(after != segments_.end() && image_offset >= after->begin);
  if (after->on_host) return {true, image_offset};
  return {false, after->device + (image_offset - after->begin)};
}

}  // namespace ebb::runtime
