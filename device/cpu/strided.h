// Copies between two strided views of equal dimensions: what every movement op comes down to, in
// any layout. Plain data, built when a kernel is made.
#pragma once

#include <array>

#include "device/common/broadcast.h"
#include "device/cpu/common.h"

namespace ebb::device::cpu {

// Strides in elements of the logical dimensions of a value in its layout.
Shape LogicalStrides(const Value& value);

struct StridedCopy {
  int rank = 0;
  std::array<int64_t, kMaxRank> dim{};
  std::array<int64_t, kMaxRank> from{};  // strides in elements, may be negative
  std::array<int64_t, kMaxRank> to{};
  int64_t from_base = 0;
  int64_t to_base = 0;
  int64_t element = 4;  // bytes: 1, 4 or 8

  void Run(const void* source, void* target) const;
};

// At most 8 dimensions (every op's limit). Dimensions are put in the order of the target's memory
// and merged where both sides allow it.
StridedCopy MakeStridedCopy(const Shape& dims, const Shape& from, const Shape& to, DType dtype,
                            int64_t from_base = 0, int64_t to_base = 0);

}  // namespace ebb::device::cpu
