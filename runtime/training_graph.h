// The graph that a job trains by at any batch, for those who predict how long it would take. Free
// functions without state.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "runtime/job.h"

namespace ebb::runtime {

// Of one step over `batch` rows at once: neither accumulated nor in micro-batches, not lowered for
// a device. Values and data are not needed. The errors are those of the model; InvalidArgument: a
// job that predicts, or a model that binds another batch; Cancelled (spec.abandoned).
absl::StatusOr<graph::Graph> TrainingGraphAt(JobSpec spec, int64_t batch);

}  // namespace ebb::runtime
