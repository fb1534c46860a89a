#include "graph/recompute.h"

#include <algorithm>
#include <cmath>
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
// Live peaks computed in one search: bounds its time, whatever the graph is.
constexpr int kMostTrials = 4096;

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

// What liveness looks at of a graph: small to copy.
struct Skeleton {
  Graph values;
  std::vector<Node> nodes;
};

Skeleton SkeletonOf(const Graph& graph) {
  Skeleton skeleton;
  for (const Value& value : graph.values) {
    Value bare = value;
    bare.name = absl::StrCat(value.id.value());
    bare.data = nullptr;
    skeleton.values.values.push_back(std::move(bare));
  }
  skeleton.values.outputs = graph.outputs;
  for (const Node& node : graph.nodes) {
    Node bare = node;
    bare.name.clear();
    bare.attrs = Attrs();
    skeleton.nodes.push_back(std::move(bare));
  }
  return skeleton;
}

class Search {
 public:
  Search(const Graph& graph, const RecomputeOptions& options)
      : graph_(graph),
        options_(options),
        rules_(graph),
        skeleton_(SkeletonOf(graph)),
        clones_(graph) {}

  absl::Status Run() {
    EBB_ASSIGN_OR_RETURN(const double step_us, Weigh());
    // Micro-batches have much the same peak: each is lowered by itself, for its share of the time.
    const std::vector<Wave> waves = WavesOf(graph_);
    for (size_t i = 0; i < waves.size(); ++i) {
      wave_ = waves[i];
      budget_us_ = options_.most_cost * step_us * static_cast<double>(i + 1) /
                   static_cast<double>(waves.size());
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

  // Of the wave.
  Peak PeakOf(const Clones& clones) {
    ++trials_;
    const Graph trial = WithClones(skeleton_.values, skeleton_.nodes, clones);
    const Liveness liveness = ComputeLiveness(trial);
    std::vector<Bytes> change(trial.nodes.size() + 1);
    for (const Buffer& buffer : liveness.buffers) {
      change[static_cast<size_t>(buffer.first)] += buffer.bytes;
      change[static_cast<size_t>(buffer.last) + 1] -= buffer.bytes;
    }
    std::vector<int> clones_before(graph_.nodes.size());
    for (int place : clones.place) {
      if (place != Clones::kNone) ++clones_before[static_cast<size_t>(place)];
    }
    Peak peak;
    Bytes live;
    int at = 0;
    for (size_t node = 0; node < graph_.nodes.size(); ++node) {
      for (int end = at + clones_before[node] + 1; at < end; ++at) {
        live += change[static_cast<size_t>(at)];
        if (live > peak.bytes && wave_.Has(static_cast<int>(node)))
          peak = {live, static_cast<int>(node)};
      }
    }
    return peak;
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

  // The clones with those of the candidate, and what all of them cost.
  std::optional<std::pair<Clones, double>> With(const std::vector<ValueId>& values) const {
    std::pair<Clones, double> with(clones_, 0);
    for (ValueId value : values) {
      if (!rules_.Add(value, &with.first)) return std::nullopt;
    }
    for (size_t i = 0; i < clone_us_.size(); ++i) {
      if (with.first.place[i] != Clones::kNone) with.second += clone_us_[i];
    }
    return with;
  }

  void FindCandidates() {
    candidates_.clear();
    const Liveness liveness = ComputeLiveness(graph_);
    for (const Buffer& buffer : liveness.buffers) {
      if (!wave_.Has(buffer.first) || buffer.cls != BufferClass::kSaved ||
          buffer.bytes * kLeastShare < peak_.bytes)
        continue;
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
    if (wanted.empty() || !CoversPeak(candidate, wanted) || trials_ >= kMostTrials) return false;
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
  const Skeleton skeleton_;
  Clones clones_;  // so far
  std::vector<double> clone_us_;
  double budget_us_ = 0, spent_us_ = 0;
  int trials_ = 0;
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
