// Log-softmax of rows, shared with the losses and metrics that are made of it.
#pragma once

#include <cstdint>

namespace ebb::device::cpu {

// y = x - log(sum(exp(x))) over n > 0 contiguous elements; in place is fine.
void LogSoftmaxRow(const float* x, float* y, int64_t n);
// The same for `inner` rows side by side: element i of row c is at [i * inner + c].
void LogSoftmaxStrided(const float* x, float* y, int64_t length, int64_t inner);

}  // namespace ebb::device::cpu
