// Every birth and death of a buffer while two jobs train together, in the order in which a
// simulated device executed them under the engine. Plain data; RecordTrace is a free function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"

namespace ebb::bench {

struct TraceBuffer {
  Bytes bytes;            // aligned as the device wants it
  int job = 0;            // whose stream it is used on
  int launch = 0;         // the launch in which it is born, of those of its job
  bool outlives = false;  // ... that launch
  Bytes offset;           // where the job's stack plan has it
};

struct TraceOp {
  int32_t buffer = 0;
  bool birth = false;  // else death
};

struct AllocationTrace {
  std::string name;
  std::vector<TraceBuffer> buffers;
  std::vector<TraceOp> ops;  // a death follows its birth
  Bytes live_peak;           // the largest sum of live buffers: no allocator needs less
  Bytes planned_peak;        // the largest sum of both jobs' stacks: what a lane had to have
};

struct TraceJob {
  std::string model;
  int64_t batch = 0;
};

// `steps` of every job, all submitted at instant 0. State that lives across steps is left out.
// InvalidArgument: the device is not simulated; NotFound: there is no such device or model;
// ResourceExhausted: the jobs do not fit together.
absl::StatusOr<AllocationTrace> RecordTrace(const std::string& device,
                                            const std::vector<TraceJob>& jobs, int64_t steps);

}  // namespace ebb::bench
