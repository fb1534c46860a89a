// Where to cut: sub-models of nearly equal memory, contiguous in execution order, backward groups
// mirroring forward groups. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/units.h"
#include "graph/graph.h"
#include "graph/liveness.h"

namespace ebb::partitioner {

struct SubModel {
  int first = 0;  // node indices, inclusive
  int last = 0;
  graph::Phase phase = graph::Phase::kForward;  // of its first node
  Bytes saved;  // net bytes that its forward nodes leave behind for backward
};

struct Partition {
  std::vector<SubModel> sub_models;  // cover all nodes in order
  Bytes quantum;
};

struct PartitionOptions {
  Bytes quantum;        // memory a sub-model aims at, the same for all jobs of a device
  int max_groups = 64;  // forward groups, of every micro-batch
  int min_groups = 1;
};

// Units are tape entries (a forward node and the backward nodes that mirror it), weighed by net
// saved bytes. Binary search on the largest group with greedy fill, then the least sum of squared
// deviations under that cap; ties to fewer bytes crossing the cuts; never more groups than
// total/largest unit. Backward and update nodes go where their mirrors are; updates put off to the
// step's end are a sub-model of their own. Micro-batches (graph/micro_batch.h) are cut one by one,
// each as if it were alone. InvalidArgument for a graph that does not begin with forward nodes or
// options that contradict themselves.
absl::StatusOr<Partition> Split(const graph::Graph& graph, const graph::Liveness& liveness,
                                const PartitionOptions& options);

// Sub-models are non-empty, contiguous and cover the graph.
absl::Status Verify(const Partition& partition, const graph::Graph& graph);
std::string ToText(const Partition& partition, const graph::Graph& graph);

// Quantum of a device: budget / 16, within [64 MB, 8 GB] on pools of 1 GB and more, down to 64 KiB
// on smaller ones.
Bytes QuantumFor(Bytes pool_budget);

}  // namespace ebb::partitioner
