// The largest batch that fits, in few attempts: what a job takes grows almost linearly with its
// batch, and an attempt plans a whole job. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/units.h"

namespace ebb::runtime {

struct BatchTrial {
  bool fits = false;
  std::optional<Bytes> bytes;  // what it takes, where that is known
};

// The largest batch within [1, most] that fits, 0 when none does, if all below it fit too. `limit`:
// what `bytes` may reach.
int64_t LargestBatch(int64_t most, Bytes limit, const std::function<BatchTrial(int64_t)>& attempt);

// What `batch_size: auto` makes of it: a multiple of 8 from there on, since kernels like their rows
// so.
constexpr int64_t RoundedBatch(int64_t largest) { return largest < 8 ? largest : largest / 8 * 8; }

}  // namespace ebb::runtime
