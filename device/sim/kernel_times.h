// Kernels that were measured on a real device, by what their time depends on: with them a profile
// simulates that device, not one that its constants make up. Plain data and a free function.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace ebb::device {

struct KernelTime {
  double micros = 0;     // alone
  double bandwidth = 0;  // share of the device's memory bandwidth meanwhile, within [0, 1]
  bool operator==(const KernelTime&) const = default;
};
using KernelTimes = std::map<std::string, KernelTime, std::less<>>;

// "Gemm(f32[32,64], f32[10,64], -) {trans_b=1} -> f32[32,10]": op, operands and attributes, without
// names. Operands in channels-last order say so.
std::string KernelKey(const graph::Graph& graph, const graph::Node& node);

}  // namespace ebb::device
