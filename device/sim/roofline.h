// How long a kernel takes when it has the device to itself, and what it uses of it meanwhile. Pure
// functions of the node's shapes and the profile's constants (docs/device_sim.md has the formulas).
#pragma once

#include <cstdint>

#include "base/units.h"
#include "device/sim/profile.h"
#include "graph/graph.h"

namespace ebb::device {

// Shares are means over the kernel's time alone, within [0, 1].
struct KernelCost {
  double micros = 0;     // alone; 0: there is no kernel (a view)
  double slots = 0;      // of the blocks that the device can hold at once
  double flops = 0;      // of peak arithmetic
  double bandwidth = 0;  // of device memory's bandwidth
};

// The blocks of a kernel and how many of its kind the device holds at once.
struct Grid {
  int64_t blocks = 1;
  int64_t slots = 1;
  // Part of the slots' time that is used: the last wave is rarely full.
  double Efficiency() const;
};

Grid GridOf(const SimProfile& profile, const graph::Graph& graph, const graph::Node& node);
// micros = kernel_overhead_us + max(flops / (peak x efficiency), bytes / bandwidth).
KernelCost CostAlone(const SimProfile& profile, const graph::Graph& graph, const graph::Node& node);
// Scratch that the node's kernel takes while it runs.
Bytes WorkspaceOf(const SimProfile& profile, const graph::Graph& graph, const graph::Node& node);

// A copy within device memory: a kernel that reads and writes.
KernelCost DeviceCopyCost(const SimProfile& profile, Bytes bytes);
// A copy over the bus, alone in its direction.
double BusMicros(const SimProfile& profile, Bytes bytes);

}  // namespace ebb::device
