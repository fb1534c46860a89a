// How the memory left over by resident state is cut into lanes, and which job goes into which.
// Pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/units.h"

namespace ebb::scheduler {

struct PackingJob {
  JobId job;
  Bytes peak;  // largest extent of any of its steps
};
struct PackedLane {
  Bytes size;
  std::vector<JobId> jobs;
};

// At most `max_lanes` lanes whose sizes (multiples of `granule`) sum to at most `available`, every
// job in a lane that holds its peak, so that as many steps as possible can be in flight: big jobs
// share, small ones get lanes of their own. Leftover bytes go where two steps cannot overlap fully
// yet. kResourceExhausted when the largest peak does not fit.
absl::StatusOr<std::vector<PackedLane>> PackLanes(std::vector<PackingJob> jobs, Bytes available,
                                                  Bytes granule, int max_lanes);

}  // namespace ebb::scheduler
