// The moving average of a parameter, which an update may keep.
#pragma once

#include "device/cpu/common.h"

namespace ebb::device::cpu {

// Operand `i` of an update if it has that, of the parameter (operand 0) as the update leaves it. It
// begins as what the first step leaves.
struct Average {
  Average(const Graph& graph, const Node& node, size_t i);
  void Move(const KernelArgs& args) const;

  int operand;  // -1: none
  int64_t n;
  double decay;
};

}  // namespace ebb::device::cpu
