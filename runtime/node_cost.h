// How long a node's kernel takes, roughly: for choices between ways to train a job, never for
// figures. Pure.
#pragma once

#include "base/device_spec.h"
#include "graph/graph.h"

namespace ebb::runtime {

// Microseconds by the roofline max(flops / peak rate, bytes / bandwidth), with rates of a small
// processor where the device does not say.
double NodeMicros(const DeviceSpec& device, const graph::Graph& graph, const graph::Node& node);
// Bytes a microsecond between the device's memory and the host's, each way; those of a PCIe 3.0 bus
// where the device does not say.
double BusBytesPerMicro(const DeviceSpec& device);

}  // namespace ebb::runtime
