#include "graph/recompute.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/clones.h"
#include "graph/liveness.h"
#include "graph/op.h"
#include "graph/waves.h"

namespace ebb::graph {
namespace {

// Less than this share of the peak is not worth a look.
constexpr int64_t kLeastShare = 4096;
// Nodes looked at in one search, over all live peaks that it computes: bounds its time (about a
// second), whatever the graph is.
constexpr double kMostVisits = 8e6;

// A saved buffer.
struct Candidate {
  std::vector<ValueId> values;  // its own that forward made
  Bytes bytes;
  double bytes_per_us = 0;
};

// Where the most bytes live, in nodes of the original graph; clones count as the node that they
// run before.
struct Peak {
  Bytes bytes;
  int node = 0;
};

// What liveness looks at of one wave, small to copy: its nodes, and values numbered anew. What was
// alive before it counts as an input, what is read after it as an output.
class Skeleton {
 public:
  Skeleton(const Graph& graph, const Wave& wave) : wave_(wave), local_(graph.values.size()) {
    std::vector<bool> later(graph.values.size());
    for (ValueId output : graph.outputs) later[output.index()] = true;
    for (size_t i = static_cast<size_t>(wave.end); i < graph.nodes.size(); ++i) {
      for (ValueId input : graph.nodes[i].inputs) {
        if (input.valid()) later[input.index()] = true;
      }
    }
    for (const Value& value : graph.values) {
      const bool before = value.role == Role::kInput ||
                          (value.producer.valid() && value.producer.value() < wave.first);
      if (before && later[value.id.index()]) Local(graph, value.id);
    }
    for (int i = wave.first; i < wave.end; ++i) AddNode(graph, graph.nodes[static_cast<size_t>(i)]);
    for (ValueId value : global_) {
      if (!later[value.index()]) continue;
      values_.outputs.push_back(local_[value.index()]);
    }
  }

  size_t num_nodes() const { return nodes_.size(); }

  // With what is cloned in this wave.
  Peak PeakOf(const Clones& all) const {
    Clones clones(values_);
    clones.place.assign(nodes_.size(), Clones::kNone);
    std::vector<int> clones_before(nodes_.size());
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const int place = all.place[static_cast<size_t>(wave_.first) + i];
      if (place == Clones::kNone) continue;
      clones.place[i] = place - wave_.first;
      ++clones_before[static_cast<size_t>(place - wave_.first)];
    }
    for (size_t v = 0; v < global_.size(); ++v) {
      clones.from_clone[v] = all.from_clone[global_[v].index()];
    }
    const std::vector<Bytes> live = LiveBytes(WithClones(values_, nodes_, clones));
    Peak peak;
    size_t at = 0;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      for (const size_t end = at + static_cast<size_t>(clones_before[node]) + 1; at < end; ++at) {
        if (live[at] > peak.bytes) peak = {live[at], wave_.first + static_cast<int>(node)};
      }
    }
    return peak;
  }

 private:
  static std::vector<Bytes> LiveBytes(const Graph& graph) {
    std::vector<Bytes> change(graph.nodes.size() + 1);
    for (const Buffer& buffer : ComputeLiveness(graph).buffers) {
      change[static_cast<size_t>(buffer.first)] += buffer.bytes;
      change[static_cast<size_t>(buffer.last) + 1] -= buffer.bytes;
    }
    std::partial_sum(change.begin(), change.end(), change.begin());
    return change;
  }

  void AddNode(const Graph& graph, const Node& node) {
    Node bare;
    bare.id = NodeId(static_cast<int32_t>(nodes_.size()));
    bare.op = node.op;
    bare.phase = node.phase;
    for (ValueId id : node.inputs) bare.inputs.push_back(id.valid() ? Local(graph, id) : id);
    for (ValueId id : node.outputs) bare.outputs.push_back(Local(graph, id));
    nodes_.push_back(std::move(bare));
  }

  ValueId Local(const Graph& graph, ValueId id) {
    ValueId& local = local_[id.index()];
    if (local.valid()) return local;
    local = ValueId(static_cast<int32_t>(global_.size()));
    global_.push_back(id);
    Value bare = graph.value(id);
    if (bare.role == Role::kActivation && !wave_.Has(bare.producer.value())) {
      bare.role = Role::kInput;
    }
    bare.id = local;
    bare.name = absl::StrCat(local.value());
    bare.producer = NodeId();
    bare.data = nullptr;
    values_.values.push_back(std::move(bare));
    return local;
  }

  const Wave wave_;
  std::vector<ValueId> local_;   // by value of the graph
  std::vector<ValueId> global_;  // the other way round
  Graph values_;
  std::vector<Node> nodes_;
};

class Search {
 public:
  Search(const Graph& graph, const RecomputeOptions& options)
      : graph_(graph), options_(options), rules_(graph), clones_(graph) {}

  absl::Status Run() {
    EBB_ASSIGN_OR_RETURN(const double step_us, Weigh());
    // Micro-batches have much the same peak: each is lowered by itself, for its share of the time.
    const std::vector<Wave> waves = WavesOf(graph_);
    for (size_t i = 0; i < waves.size(); ++i) {
      wave_ = waves[i];
      skeleton_.emplace(graph_, wave_);
      const double share = static_cast<double>(i + 1) / static_cast<double>(waves.size());
      budget_us_ = options_.most_cost * step_us * share;
      most_visits_ = kMostVisits * share;
      peak_ = PeakOf(clones_);
      FindCandidates();
      // First what lowers the peak by a good part of the bytes that it stands for; what mostly
      // moves it to another place comes later, if at all.
      Take([](Bytes bytes) { return bytes / 2; });
      Take([](Bytes) { return Bytes(1); });
    }
    return absl::OkStatus();
  }

  const Clones& clones() const { return clones_; }
  double cost_us() const { return spent_us_; }

 private:
  // What each clone costs, and the step.
  absl::StatusOr<double> Weigh() {
    double step_us = 0;
    for (const Node& node : graph_.nodes) {
      std::optional<Node> clone;
      if (node.phase <= Phase::kLoss) clone = rules_.CloneOf(node);
      const double us = options_.cost(graph_, node);
      clone_us_.push_back(clone ? options_.cost(graph_, *clone) : 0);
      for (double cost : {us, clone_us_.back()}) {
        if (std::isfinite(cost) && cost >= 0) continue;
        return absl::InvalidArgumentError(absl::StrCat("recompute: the cost of node '", node.name,
                                                       "' is ", cost, ", not microseconds"));
      }
      step_us += us;
    }
    return step_us;
  }

  Peak PeakOf(const Clones& clones) {
    visits_ += static_cast<double>(skeleton_->num_nodes());
    return skeleton_->PeakOf(clones);
  }

  // Those of them that backward or a clone reads as they are.
  std::vector<ValueId> Wanted(const Candidate& candidate) const {
    std::vector<ValueId> wanted;
    for (ValueId value : candidate.values) {
      if (rules_.IsWanted(value, clones_) && !clones_.from_clone[value.index()]) {
        wanted.push_back(value);
      }
    }
    return wanted;
  }

  // The clones with those of the candidate, and what all of them cost. Nothing is made again in
  // another wave: it would live through what lies between.
  std::optional<std::pair<Clones, double>> With(const std::vector<ValueId>& values) const {
    std::pair<Clones, double> with(clones_, 0);
    for (ValueId value : values) {
      if (!rules_.Add(value, &with.first)) return std::nullopt;
    }
    for (size_t i = 0; i < clone_us_.size(); ++i) {
      const int place = with.first.place[i];
      if (place == Clones::kNone) continue;
      if (wave_.Has(place) != wave_.Has(static_cast<int>(i))) return std::nullopt;
      with.second += clone_us_[i];
    }
    return with;
  }

  void FindCandidates() {
    candidates_.clear();
    const Liveness liveness = ComputeLiveness(graph_);
    for (const Buffer& buffer : liveness.buffers) {
      if (!wave_.Has(buffer.first) || !wave_.Has(buffer.last)) continue;
      if (buffer.cls != BufferClass::kSaved || buffer.bytes * kLeastShare < peak_.bytes) continue;
      Candidate candidate{{}, buffer.bytes, 0};
      for (ValueId value : buffer.values) {
        const NodeId producer = graph_.value(value).producer;
        if (graph_.node(producer).phase <= Phase::kLoss) candidate.values.push_back(value);
      }
      const auto with = With(Wanted(candidate));
      if (!with || with->second > budget_us_) continue;
      const double us = with->second - spent_us_;
      candidate.bytes_per_us = static_cast<double>(buffer.bytes.count()) / (us + 1e-9);
      candidates_.push_back(std::move(candidate));
    }
    std::stable_sort(
        candidates_.begin(), candidates_.end(),
        [](const Candidate& a, const Candidate& b) { return a.bytes_per_us > b.bytes_per_us; });
  }

  // Would the buffer be gone where the most bytes live?
  bool CoversPeak(const Candidate& candidate, const std::vector<ValueId>& wanted) const {
    int from = 0, to = static_cast<int>(graph_.nodes.size());
    for (ValueId value : candidate.values) from = std::max(from, rules_.LastForwardUse(value));
    for (ValueId value : wanted) to = std::min(to, rules_.FirstBackwardRead(value));
    return from < peak_.node && peak_.node < to;
  }

  // Takes candidates in their order, again and again as long as that helps: the peak moves.
  // `least`: by how much a candidate of so many bytes must lower it.
  void Take(Bytes (*least)(Bytes bytes)) {
    for (bool again = true; again;) {
      again = false;
      for (const Candidate& candidate : candidates_) {
        if (options_.target > Bytes(0) && peak_.bytes <= options_.target) return;
        if (Try(candidate, least(candidate.bytes))) again = true;
      }
    }
  }

  bool Try(const Candidate& candidate, Bytes least) {
    const std::vector<ValueId> wanted = Wanted(candidate);
    if (wanted.empty() || !CoversPeak(candidate, wanted) || visits_ >= most_visits_) return false;
    auto with = With(wanted);
    if (!with || with->second > budget_us_) return false;
    const Peak peak = PeakOf(with->first);
    if (peak_.bytes - peak.bytes < least) return false;
    peak_ = peak;
    std::tie(clones_, spent_us_) = *std::move(with);
    return true;
  }

  const Graph& graph_;
  const RecomputeOptions& options_;
  const CloneRules rules_;
  std::optional<Skeleton> skeleton_;  // of the wave
  Clones clones_;                     // so far
  std::vector<double> clone_us_;
  double budget_us_ = 0, spent_us_ = 0;
  double most_visits_ = 0, visits_ = 0;
  Wave wave_;  // that is being lowered
  Peak peak_;
  std::vector<Candidate> candidates_;
};

Bytes PeakOf(const Graph& graph) {
  return LivePeak(ComputeLiveness(graph), static_cast<int>(graph.nodes.size()));
}

}  // namespace

absl::StatusOr<Recomputed> Recompute(const Graph& training, const RecomputeOptions& options) {
  if (!options.cost || !(options.most_cost >= 0) || options.target < Bytes(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("recompute: needs a cost function, most_cost >= 0 and target >= 0, not ",
                     options.most_cost, " and ", options.target.count()));
  }
  Search search(training, options);
  EBB_RETURN_IF_ERROR(search.Run());
  Recomputed result;
  Graph base = training;
  base.nodes.clear();
  result.graph = WithClones(std::move(base), training.nodes, search.clones());
  for (const Value& value : training.values) {
    if (search.clones().from_clone[value.id.index()]) result.values.push_back(value.name);
  }
  result.live_peak_before = PeakOf(training);
  result.live_peak_after = PeakOf(result.graph);
  result.cost_us = search.cost_us();
  return result;
}

}  // namespace ebb::graph
