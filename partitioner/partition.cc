#include "partitioner/partition.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "graph/waves.h"
#include "partitioner/groups.h"

namespace ebb::partitioner {
namespace {

using graph::Graph;
using graph::Liveness;
using graph::Node;
using graph::Phase;
using graph::Wave;

size_t ForwardNodes(const Wave& wave) { return static_cast<size_t>(wave.turn - wave.first); }

// The place of a node among its wave's.
size_t At(const Wave& wave, int node) { return static_cast<size_t>(node - wave.first); }

// What every forward node leaves behind for backward.
std::vector<Bytes> SavedBytes(const Liveness& liveness, const Wave& wave) {
  std::vector<Bytes> saved(ForwardNodes(wave));
  for (const graph::Buffer& buffer : liveness.buffers) {
    if (buffer.cls != graph::BufferClass::kSaved || !wave.HasForward(buffer.first)) continue;
    saved[At(wave, buffer.first)] += buffer.bytes;
  }
  return saved;
}

// Where nothing is saved (evaluation), what every node makes.
std::vector<Bytes> MadeBytes(const Liveness& liveness, const Wave& wave) {
  std::vector<Bytes> made(ForwardNodes(wave));
  for (const graph::Buffer& buffer : liveness.buffers) {
    if (wave.HasForward(buffer.first)) made[At(wave, buffer.first)] += buffer.bytes;
  }
  return made;
}

// Bytes that a forward node at or after `i` reads and one before `i` made, for every cut before i.
std::vector<Bytes> CrossingBytes(const Graph& graph, const Liveness& liveness, const Wave& wave) {
  std::vector<int> last_read(liveness.buffers.size(), -1);
  for (int i = wave.first; i < wave.turn; ++i) {
    for (ValueId input : graph.nodes[static_cast<size_t>(i)].inputs) {
      if (!input.valid() || input.index() >= liveness.buffer_of.size()) continue;
      const int buffer = liveness.buffer_of[input.index()];
      if (buffer >= 0) last_read[static_cast<size_t>(buffer)] = i;
    }
  }
  std::vector<Bytes> change(ForwardNodes(wave) + 2);
  for (size_t b = 0; b < liveness.buffers.size(); ++b) {
    const graph::Buffer& buffer = liveness.buffers[b];
    if (!wave.HasForward(buffer.first) || last_read[b] <= buffer.first) continue;
    change[At(wave, buffer.first) + 1] += buffer.bytes;
    change[At(wave, last_read[b]) + 1] -= buffer.bytes;
  }
  std::vector<Bytes> crossing(ForwardNodes(wave));
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

// The group of every node in [begin, end): its mirror's, made non-increasing. A group ends where no
// later node belongs to it or to one above it.
std::vector<int> MirroredGroups(const Graph& graph, const Wave& wave,
                                const std::vector<int>& group_of, int begin, int end) {
  std::vector<int> groups;
  int wanted = group_of.back();
  for (int i = begin; i < end; ++i) {
    const NodeId mirror = graph.nodes[static_cast<size_t>(i)].mirror;
    if (mirror.valid() && wave.HasForward(mirror.value())) {
      wanted = group_of[At(wave, mirror.value())];
    }
    groups.push_back(wanted);
  }
  for (size_t i = groups.size(); i-- > 1;) groups[i - 1] = std::max(groups[i - 1], groups[i]);
  return groups;
}

// Updates put off to the step's end begin again with the last group: where they begin.
int DeferredUpdates(const Graph& graph, const Wave& wave, const std::vector<int>& group_of) {
  int tail = wave.end;
  while (tail > wave.turn && graph.nodes[static_cast<size_t>(tail) - 1].phase == Phase::kUpdate) {
    --tail;
  }
  const std::vector<int> groups = MirroredGroups(graph, wave, group_of, wave.turn, tail);
  // The group that is open when the tail begins, without the tail's own say.
  const int open = groups.empty() ? group_of.back() : groups.back();
  for (int i = tail; i < wave.end; ++i) {
    const NodeId mirror = graph.nodes[static_cast<size_t>(i)].mirror;
    if (mirror.valid() && wave.HasForward(mirror.value()) &&
        group_of[At(wave, mirror.value())] > open) {
      return tail;
    }
  }
  return wave.end;
}

// Appends the sub-models of one wave.
void SplitWave(const Graph& graph, const Liveness& liveness, const PartitionOptions& options,
               const Wave& wave, std::vector<SubModel>* sub_models) {
  const std::vector<Bytes> saved = SavedBytes(liveness, wave);
  const bool any_saved =
      std::any_of(saved.begin(), saved.end(), [](Bytes bytes) { return bytes > Bytes(0); });
  const std::vector<Bytes> weights = any_saved ? saved : MadeBytes(liveness, wave);
  const int num_groups = NumGroups(weights, options);
  // Greedy filling may need fewer groups; cutting one in two never raises the maximum.
  const std::vector<int> firsts = BestCuts(weights, CrossingBytes(graph, liveness, wave),
                                           num_groups, LeastMaximum(weights, num_groups));
  const auto add = [&](int first, int last) {
    sub_models->push_back({first, last, graph.nodes[static_cast<size_t>(first)].phase, Bytes(0)});
  };
  std::vector<int> group_of(ForwardNodes(wave));
  for (int g = 0; g < num_groups; ++g) {
    const auto begin = static_cast<size_t>(firsts[static_cast<size_t>(g)]);
    const auto end = g + 1 < num_groups ? static_cast<size_t>(firsts[static_cast<size_t>(g) + 1])
                                        : ForwardNodes(wave);
    add(wave.first + static_cast<int>(begin), wave.first + static_cast<int>(end) - 1);
    for (size_t i = begin; i < end; ++i) {
      group_of[i] = g;
      sub_models->back().saved += saved[i];
    }
  }
  const int tail = DeferredUpdates(graph, wave, group_of);
  // Put off, updates still come group by group: state on the host visits the device for a group at
  // a time.
  for (const auto& [begin, end] : {std::pair(wave.turn, tail), std::pair(tail, wave.end)}) {
    const std::vector<int> mirrored = MirroredGroups(graph, wave, group_of, begin, end);
    int first = begin;
    for (int i = begin; i < end; ++i) {
      const auto at = static_cast<size_t>(i - begin);
      if (at + 1 < mirrored.size() && mirrored[at + 1] == mirrored[at]) continue;
      add(first, i);
      first = i + 1;
    }
  }
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
  const std::vector<Wave> waves = graph::WavesOf(graph);
  if (waves.empty() || ForwardNodes(waves[0]) == 0) {
    return absl::InvalidArgumentError("partition: the graph has no forward nodes");
  }
  Partition partition;
  partition.quantum = options.quantum;
  for (const Wave& wave : waves) {
    SplitWave(graph, liveness, options, wave, &partition.sub_models);
  }
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
