// Where the bytes of a job's resident image are: on the device, without gaps, or on the host. The
// image (ResidentLayout) is the same at all levels of the ladder; a placement moves parts of it.
#pragma once

#include <vector>

#include "base/units.h"

namespace ebb::runtime {

class Placement {
 public:
  // A run of the image [begin, end) that is in one piece.
  struct Segment {
    Bytes begin, end;
    bool on_host = false;
    Bytes device;  // offset into the job's region, unless it is on the host
    Bytes bytes() const { return end - begin; }
  };
  struct Spot {
    bool on_host = false;
    Bytes offset;  // on the device: into the region; on the host: into the image
  };
  // Of one value of the image, aligned as it is there.
  struct Piece {
    Bytes begin, bytes;
    bool on_host = false;
  };

  Placement() = default;
  // `pieces` cover the image in order.
  explicit Placement(const std::vector<Piece>& pieces);

  Spot At(Bytes image_offset) const;  // REQUIRES: within the image
  const std::vector<Segment>& segments() const { return segments_; }
  Bytes device_bytes() const { return device_; }
  Bytes host_bytes() const { return host_; }

 private:
  std::vector<Segment> segments_;
  Bytes device_, host_;
};

}  // namespace ebb::runtime
