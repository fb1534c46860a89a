#include "graph/streaming.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

// Uses at most so many sub-models apart share a copy: between them it would be out of the stack for
// less than it takes to bring it back.
constexpr int kNear = 3;

class Streamer {
 public:
  Streamer(const Graph& graph, absl::Span<const NodeRange> sub_models,
           const std::vector<bool>& streamed)
      : source_(graph), cuts_(sub_models), streamed_(streamed), current_(graph.values.size(), -1) {}

  absl::StatusOr<StreamedGraph> Run() {
    for (const UseInterval& uses : FindIntervals(source_, cuts_, streamed_)) {
      intervals_.push_back({uses, ValueId()});
    }
    result_.graph = source_;
    result_.graph.nodes.clear();
    new_id_.assign(source_.nodes.size(), NodeId());
    const int count = static_cast<int>(cuts_.size());
    for (int s = 0; s < count; ++s) EBB_RETURN_IF_ERROR(SubModel(s));
    return std::move(result_);
  }

 private:
  struct Interval : UseInterval {
    ValueId copy;  // once it has been fetched
  };

  absl::Status SubModel(int s) {
    Traffic traffic;
    const int begin = static_cast<int>(result_.graph.nodes.size());
    for (size_t i = 0; i < intervals_.size(); ++i) {
      const Interval& interval = intervals_[i];
      if (s == 0 && interval.first == 0) EBB_RETURN_IF_ERROR(Fetch(i, s, &traffic.fetch_now));
    }
    for (size_t i = 0; i < intervals_.size(); ++i) {
      if (intervals_[i].first == s + 1) EBB_RETURN_IF_ERROR(Fetch(i, s, &traffic.fetch_ahead));
    }
    // From here on the uses read the copies made for this sub-model.
    for (size_t i = 0; i < intervals_.size(); ++i) {
      if (intervals_[i].first == s) current_[intervals_[i].value.index()] = static_cast<int>(i);
    }
    traffic.computed.first = static_cast<int>(result_.graph.nodes.size());
    for (int n = cuts_[s].first; n <= cuts_[s].last; ++n) Compute(n);
    traffic.computed.last = static_cast<int>(result_.graph.nodes.size()) - 1;
    const bool last = s + 1 == static_cast<int>(cuts_.size());
    for (const Interval& interval : intervals_) {
      if (interval.writes && interval.last + 1 == s) {
        EBB_RETURN_IF_ERROR(Store(interval, s, &traffic.store));
      }
    }
    for (const Interval& interval : intervals_) {
      if (interval.writes && interval.last == s && last) {
        EBB_RETURN_IF_ERROR(Store(interval, s, &traffic.store_last));
      }
    }
    result_.sub_models.push_back({begin, static_cast<int>(result_.graph.nodes.size()) - 1});
    result_.traffic.push_back(std::move(traffic));
    return absl::OkStatus();
  }

  // A copy belongs to the phase, and to the mirror, of the nodes that it stands beside.
  absl::StatusOr<NodeId> AddCopy(absl::string_view op, const std::string& of,
                                 std::vector<ValueId> inputs, const Node& beside) {
    const bool backward = beside.phase >= Phase::kBackward;
    return result_.graph.AddNode(op, absl::StrCat(op, "/", of), std::move(inputs), {},
                                 backward ? Phase::kBackward : beside.phase,
                                 backward ? new_id_[beside.mirror.index()] : NodeId());
  }

  absl::Status Fetch(size_t index, int s, std::vector<NodeId>* nodes) {
    Interval& interval = intervals_[index];
    const Value& value = source_.value(interval.value);
    EBB_ASSIGN_OR_RETURN(const NodeId id,
                         AddCopy("Fetch", value.name, {value.id}, source_.nodes[cuts_[s].first]));
    interval.copy = result_.graph.node(id).outputs[0];
    result_.graph.value(interval.copy).layout = value.layout;
    result_.fetched += value.type.bytes();
    nodes->push_back(id);
    return absl::OkStatus();
  }

  absl::Status Store(const Interval& interval, int s, std::vector<NodeId>* nodes) {
    const Value& value = source_.value(interval.value);
    EBB_ASSIGN_OR_RETURN(const NodeId id, AddCopy("Store", value.name, {value.id, interval.copy},
                                                  source_.nodes[cuts_[s].last]));
    result_.stored += value.type.bytes();
    nodes->push_back(id);
    return absl::OkStatus();
  }

  void Compute(int n) {
    Node node = source_.nodes[static_cast<size_t>(n)];
    const NodeId id(static_cast<int32_t>(result_.graph.nodes.size()));
    new_id_[node.id.index()] = id;
    node.id = id;
    if (node.mirror.valid()) node.mirror = new_id_[node.mirror.index()];
    for (ValueId& input : node.inputs) {
      if (!input.valid() || !streamed_[input.index()]) continue;
      input = intervals_[static_cast<size_t>(current_[input.index()])].copy;
      EBB_CHECK(input.valid());
    }
    for (const ValueId output : node.outputs) result_.graph.value(output).producer = id;
    result_.graph.nodes.push_back(std::move(node));
  }

  const Graph& source_;
  const absl::Span<const NodeRange> cuts_;
  const std::vector<bool>& streamed_;
  std::vector<Interval> intervals_;
  std::vector<int> current_;  // per value of the source: the interval that serves it now
  std::vector<NodeId> new_id_;
  StreamedGraph result_;
};

}  // namespace

std::vector<UseInterval> FindIntervals(const Graph& graph, absl::Span<const NodeRange> sub_models,
                                       const std::vector<bool>& chosen) {
  std::vector<UseInterval> intervals;
  std::map<ValueId, UseInterval> open;
  for (int s = 0; s < static_cast<int>(sub_models.size()); ++s) {
    for (int n = sub_models[s].first; n <= sub_models[s].last; ++n) {
      const Node& node = graph.nodes[static_cast<size_t>(n)];
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId input = node.inputs[i];
        if (!input.valid() || !chosen[input.index()]) continue;
        auto [it, added] = open.try_emplace(input, UseInterval{.value = input, .first = s});
        UseInterval& interval = it->second;
        if (!added && s - interval.last > kNear) {
          intervals.push_back(interval);
          interval = {.value = input, .first = s};
        }
        interval.last = s;
        const auto& mutates = node.op->mutates;
        interval.writes |= std::count(mutates.begin(), mutates.end(), static_cast<int>(i)) > 0;
      }
    }
  }
  for (const auto& [value, interval] : open) intervals.push_back(interval);
  // Then of ids: the same on every run.
  std::stable_sort(intervals.begin(), intervals.end(),
                   [](const UseInterval& a, const UseInterval& b) {
                     return std::pair(a.first, a.value) < std::pair(b.first, b.value);
                   });
  return intervals;
}

absl::StatusOr<StreamedGraph> StreamState(const Graph& graph,
                                          absl::Span<const NodeRange> sub_models,
                                          const std::vector<bool>& streamed) {
  EBB_CHECK(streamed.size() == graph.values.size());
  for (const Value& value : graph.values) {
    if (!streamed[value.id.index()]) continue;
    if (value.role != Role::kParam && value.role != Role::kOptState &&
        value.role != Role::kBuffer) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot stream '", value.name, "', a value of role ", Name(value.role),
                       "; only parameters, optimizer slots and buffers live across steps"));
    }
  }
  return Streamer(graph, sub_models, streamed).Run();
}

}  // namespace ebb::graph
