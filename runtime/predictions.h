// What a job that predicts keeps of each step: the rows of its outputs, in the order of its data.
// Free functions; the engine's thread only.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "base/units.h"
#include "runtime/prepare.h"

namespace ebb::runtime {

// Room for the outputs of all rows, zeros at first, under the outputs' names.
graph::TensorMap RoomForPredictions(const PreparedJob& job);

// The first `valid` rows of batch `batch` into job->predictions; `values` holds metric k of the
// step at offsets[k].
void KeepPredictions(absl::Span<const char> values, const std::vector<Bytes>& offsets,
                     int64_t batch, int64_t valid, PreparedJob* job);

}  // namespace ebb::runtime
