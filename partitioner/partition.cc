#include "partitioner/partition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "partitioner/groups.h"

namespace ebb::partitioner {
namespace {

using graph::Graph;
using graph::Liveness;
using graph::Node;
using graph::Phase;

// Forward and loss nodes come first; what follows mirrors them.
int ForwardEnd(const Graph& graph) {
  const auto end = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) {
    return node.phase == Phase::kBackward || node.phase == Phase::kUpdate;
  });
  return static_cast<int>(end - graph.nodes.begin());
}

// What every forward node leaves behind for backward.
std::vector<Bytes> SavedBytes(const Liveness& liveness, int forward_end) {
  std::vector<Bytes> saved(static_cast<size_t>(forward_end));
  for (const graph::Buffer& buffer : liveness.buffers) {
    if (buffer.cls != graph::BufferClass::kSaved || buffer.first >= forward_end) continue;
    saved[static_cast<size_t>(buffer.first)] += buffer.bytes;
  }
  return saved;
}

// Where nothing is saved (evaluation), what every node makes.
std::vector<Bytes> MadeBytes(const Liveness& liveness, int forward_end) {
  std::vector<Bytes> made(static_cast<size_t>(forward_end));
  for (const graph::Buffer& buffer : liveness.buffers) {
    if (buffer.first < forward_end) made[static_cast<size_t>(buffer.first)] += buffer.bytes;
  }
  return made;
}

// Bytes that a forward node at or after `i` reads and one before `i` made, for every cut before i.
std::vector<Bytes> CrossingBytes(const Graph& graph, const Liveness& liveness, int forward_end) {
  std::vector<int> last_read(liveness.buffers.size(), -1);
  for (int i = 0; i < forward_end; ++i) {
    for (ValueId input : graph.nodes[static_cast<size_t>(i)].inputs) {
      if (!input.valid() || input.index() >= liveness.buffer_of.size()) continue;
      const int buffer = liveness.buffer_of[input.index()];
      if (buffer >= 0) last_read[static_cast<size_t>(buffer)] = i;
    }
  }
  std::vector<Bytes> change(static_cast<size_t>(forward_end) + 2);
  for (size_t b = 0; b < liveness.buffers.size(); ++b) {
    const graph::Buffer& buffer = liveness.buffers[b];
    if (last_read[b] <= buffer.first) continue;
    change[static_cast<size_t>(buffer.first) + 1] += buffer.bytes;
    change[static_cast<size_t>(last_read[b]) + 1] -= buffer.bytes;
  }
  std::vector<Bytes> crossing(static_cast<size_t>(forward_end));
  Bytes now;
  for (size_t i = 0; i < crossing.size(); ++i) crossing[i] = now += change[i];
  return crossing;
}

int NumGroups(const std::vector<Bytes>& weights, const PartitionOptions& options) {
  Bytes total, largest;
  for (Bytes weight : weights) {
    total += weight;
    largest = std::max(largest, weight);
  }
  int64_t groups = (total.count() + options.quantum.count() - 1) / options.quantum.count();
  groups = std::clamp<int64_t>(groups, options.min_groups, options.max_groups);
  if (largest > Bytes(0)) groups = std::min(groups, total.count() / largest.count());
  return static_cast<int>(std::clamp<int64_t>(groups, 1, static_cast<int64_t>(weights.size())));
}

// The group of every node from `forward_end` on: its mirror's, made non-increasing. A group ends
// where no later node belongs to it or to one above it.
std::vector<int> MirroredGroups(const Graph& graph, int forward_end,
                                const std::vector<int>& group_of, int end) {
  std::vector<int> groups;
  int wanted = group_of.back();
  for (int i = forward_end; i < end; ++i) {
    const NodeId mirror = graph.nodes[static_cast<size_t>(i)].mirror;
    if (mirror.valid() && mirror.value() < forward_end) wanted = group_of[mirror.index()];
    groups.push_back(wanted);
  }
  for (size_t i = groups.size(); i-- > 1;) groups[i - 1] = std::max(groups[i - 1], groups[i]);
  return groups;
}

// Updates put off to the step's end belong to all groups at once: where they begin.
int DeferredUpdates(const Graph& graph, int forward_end, const std::vector<int>& group_of) {
  const int count = static_cast<int>(graph.nodes.size());
  int tail = count;
  while (tail > forward_end && graph.nodes[static_cast<size_t>(tail) - 1].phase == Phase::kUpdate) {
    --tail;
  }
  const std::vector<int> groups = MirroredGroups(graph, forward_end, group_of, tail);
  // The group that is open when the tail begins, without the tail's own say.
  const int open = groups.empty() ? group_of.back() : groups.back();
  for (int i = tail; i < count; ++i) {
    const NodeId mirror = graph.nodes[static_cast<size_t>(i)].mirror;
    if (mirror.valid() && mirror.value() < forward_end && group_of[mirror.index()] > open) {
      return tail;
    }
  }
  return count;
}

}  // namespace

Bytes QuantumFor(Bytes pool_budget) {
  const Bytes quantum = pool_budget / 16;
  if (pool_budget < GiB(1)) return std::max(quantum, KiB(64));
  return std::clamp(quantum, MiB(64), GiB(8));
}

absl::StatusOr<Partition> Split(const Graph& graph, const Liveness& liveness,
                                const PartitionOptions& options) {
  if (options.quantum <= Bytes(0) || options.min_groups < 1 ||
      options.max_groups < options.min_groups) {
    return absl::InvalidArgumentError(absl::StrCat(
        "partition: need quantum > 0 and 1 <= min_groups <= max_groups, not quantum ",
        options.quantum.count(), ", ", options.min_groups, " and ", options.max_groups));
  }
  const int count = static_cast<int>(graph.nodes.size());
  const int forward_end = ForwardEnd(graph);
  if (forward_end == 0) {
    return absl::InvalidArgumentError("partition: the graph has no forward nodes");
  }
  const std::vector<Bytes> saved = SavedBytes(liveness, forward_end);
  const bool any_saved =
      std::any_of(saved.begin(), saved.end(), [](Bytes bytes) { return bytes > Bytes(0); });
  const std::vector<Bytes> weights = any_saved ? saved : MadeBytes(liveness, forward_end);
  const int num_groups = NumGroups(weights, options);
  // Greedy filling may need fewer groups; cutting one in two never raises the maximum.
  const std::vector<int> firsts = BestCuts(weights, CrossingBytes(graph, liveness, forward_end),
                                           num_groups, LeastMaximum(weights, num_groups));

  Partition partition;
  partition.quantum = options.quantum;
  const auto add = [&](int first, int last) {
    partition.sub_models.push_back(
        {first, last, graph.nodes[static_cast<size_t>(first)].phase, Bytes(0)});
  };
  std::vector<int> group_of(static_cast<size_t>(forward_end));
  for (int g = 0; g < num_groups; ++g) {
    const int end = g + 1 < num_groups ? firsts[static_cast<size_t>(g) + 1] : forward_end;
    add(firsts[static_cast<size_t>(g)], end - 1);
    for (int i = firsts[static_cast<size_t>(g)]; i < end; ++i) {
      group_of[static_cast<size_t>(i)] = g;
      partition.sub_models.back().saved += saved[static_cast<size_t>(i)];
    }
  }
  const int tail = DeferredUpdates(graph, forward_end, group_of);
  const std::vector<int> mirrored = MirroredGroups(graph, forward_end, group_of, tail);
  int first = forward_end;
  for (int i = forward_end; i < tail; ++i) {
    const auto at = static_cast<size_t>(i - forward_end);
    if (at + 1 < mirrored.size() && mirrored[at + 1] == mirrored[at]) continue;
    add(first, i);
    first = i + 1;
  }
  if (tail < count) add(tail, count - 1);
  return partition;
}

absl::Status Verify(const Partition& partition, const Graph& graph) {
  int next = 0;
  for (size_t i = 0; i < partition.sub_models.size(); ++i) {
    const SubModel& sub_model = partition.sub_models[i];
    if (sub_model.first != next || sub_model.last < sub_model.first ||
        static_cast<size_t>(sub_model.last) >= graph.nodes.size()) {
      return absl::InternalError(absl::StrCat("partition: sub-model ", i, " has nodes ",
                                              sub_model.first, " to ", sub_model.last,
                                              ", but should begin at ", next));
    }
    if (sub_model.phase != graph.nodes[static_cast<size_t>(next)].phase) {
      return absl::InternalError(
          absl::StrCat("partition: sub-model ", i, " has not its first node's phase"));
    }
    next = sub_model.last + 1;
  }
  if (static_cast<size_t>(next) != graph.nodes.size()) {
    return absl::InternalError(
        absl::StrCat("partition: covers ", next, " of ", graph.nodes.size(), " nodes"));
  }
  return absl::OkStatus();
}

std::string ToText(const Partition& partition, const Graph& graph) {
  std::string text = absl::StrCat(partition.sub_models.size(), " sub-models, quantum ",
                                  FormatBytes(partition.quantum), "\n");
  for (size_t i = 0; i < partition.sub_models.size(); ++i) {
    const SubModel& sub_model = partition.sub_models[i];
    absl::StrAppendFormat(&text, "%3d  %-8s  nodes %4d to %4d  saved %10s  %s .. %s\n", i,
                          std::string(graph::Name(sub_model.phase)), sub_model.first,
                          sub_model.last, FormatBytes(sub_model.saved),
                          graph.nodes[static_cast<size_t>(sub_model.first)].name,
                          graph.nodes[static_cast<size_t>(sub_model.last)].name);
  }
  return text;
}

}  // namespace ebb::partitioner
