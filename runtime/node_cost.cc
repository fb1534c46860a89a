#include "runtime/node_cost.h"

#include <algorithm>

#include "graph/op.h"

namespace ebb::runtime {

double NodeMicros(const DeviceSpec& device, const graph::Graph& graph, const graph::Node& node) {
  const double flops_per_micro = device.peak_flops > 0 ? device.peak_flops * 1e-6 : 50e3;
  const double bytes_per_micro = device.peak_bandwidth > 0 ? device.peak_bandwidth * 1e-6 : 10e3;
  const graph::OpCost cost = graph::CostOf(graph, node);
  return std::max(static_cast<double>(cost.flops.count()) / flops_per_micro,
                  static_cast<double>(cost.bytes.count()) / bytes_per_micro);
}

double BusBytesPerMicro(const DeviceSpec& device) {
  return device.bus_bandwidth > 0 ? device.bus_bandwidth * 1e-6 : 10e3;
}

}  // namespace ebb::runtime
