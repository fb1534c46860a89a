// Rows for models of the zoo on devices that compute: values drawn from a fixed seed, in the ranges
// that the models' inputs have. Free functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/job.h"

namespace ebb::bench {

// Gives a job of a zoo model `rows` rows to train on, and weights that are drawn.
absl::Status DrawData(int64_t rows, runtime::JobSpec* spec);

}  // namespace ebb::bench
