// What ops cost the host, learned from traced steps and shared between ranks. Immutable; may be
// asked from any thread.
#pragma once

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "perfmodel/host_timeline.h"

namespace ebb::perfmodel {

class HostTimes {
 public:
  // InvalidArgument: no pieces at all.
  static absl::StatusOr<HostTimes> Learn(absl::Span<const HostTimeline* const> timelines);

  // Microseconds of a piece: what pieces of the same part took, of the same op between the same two
  // things, else of the same op before the same next thing, else of the same op, else of the part.
  // Calls that wait count only what they take when there is nothing to wait for.
  double Of(const HostPiece& piece) const;

 private:
  absl::flat_hash_map<std::string, double> micros_;  // by key, see the source
};

// The mean of what lies within 1.5 interquartile ranges of the quartiles; 0 of nothing.
double FilteredMean(std::vector<double> values);

}  // namespace ebb::perfmodel
