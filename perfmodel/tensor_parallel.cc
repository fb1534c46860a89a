#include "perfmodel/tensor_parallel.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/op.h"

namespace ebb::perfmodel {
namespace {

using graph::Graph;
using graph::Node;
using graph::NumElements;
using graph::Phase;
using graph::Role;
using graph::Value;

bool IsForward(const Node& node) { return node.phase == Phase::kForward; }

// What of a forward graph a rank has of a value.
enum class Share : uint8_t { kWhole, kFeatures, kHeads };

class Splitter {
 public:
  Splitter(const Graph& graph, int64_t ranks) : graph_(graph), ranks_(ranks) {
    const size_t count = graph.values.size();
    from_batch_.assign(count, false);
    from_params_.assign(count, false);
    for (const Value& value : graph.values) {
      from_batch_[value.id.index()] = value.role == Role::kInput;
      from_params_[value.id.index()] = value.role == Role::kParam;
    }
    for (const Node& node : graph.nodes) {
      for (const ValueId in : node.inputs) {
        if (!in.valid()) continue;
        for (const ValueId out : node.outputs) {
          if (from_batch_[in.index()]) from_batch_[out.index()] = true;
          if (from_params_[in.index()]) from_params_[out.index()] = true;
        }
      }
    }
  }

  TensorSplit Make() {
    while (!Assign()) {
    }
    TensorSplit split;
    split.nodes.resize(graph_.nodes.size());
    split.values.assign(graph_.values.size(), false);
    Forward(&split);
    Backward(&split);
    Slots(&split);
    return split;
  }

 private:
  // x of y = x W, with W a matrix of parameters.
  bool IsLinear(const Node& node) const {
    if (node.op->name != "Gemm" && node.op->name != "MatMul") return false;
    const ValueId x = node.inputs[0], w = node.inputs[1];
    return from_batch_[x.index()] && !from_batch_[w.index()] && from_params_[w.index()] &&
           graph_.value(w).type.shape.size() == 2;
  }
  int64_t Width(ValueId id) const {
    const auto& shape = graph_.value(id).type.shape;
    return shape.empty() ? 1 : shape.back();
  }
  // Of a linear layer: what it sums over.
  int64_t Depth(const Node& node) const {
    const int64_t elements = NumElements(graph_.value(node.inputs[1]).type.shape);
    return elements / std::max<int64_t>(Width(node.outputs[0]), 1);
  }

  Share ShareOf(ValueId id) const { return share_[id.index()]; }

  // Layers whose cut made this node's operands shares.
  std::set<int> SourcesOf(const Node& node) const {
    std::set<int> sources;
    for (const ValueId in : node.inputs) {
      if (in.valid()) sources.insert(sources_[in.index()].begin(), sources_[in.index()].end());
    }
    return sources;
  }

  // The share that a node's results are when some operand is one; nullopt: it cannot be cut.
  std::optional<Share> Through(const Node& node) const {
    Share share = Share::kFeatures;
    for (const ValueId in : node.inputs) {
      if (in.valid() && ShareOf(in) == Share::kHeads) share = Share::kHeads;
    }
    if (node.op->is_view) return share;
    const auto work = WorkOf(graph_, node);
    if (!work.ok() || !IsForward(node)) return {};
    switch (work->family) {
      case Family::kElementwise:
      case Family::kDropout:
      case Family::kConcat:
      case Family::kCopy:
      case Family::kTranspose:
        // An operand that every rank has whole, as a residual, does not fit a share.
        for (const ValueId in : node.inputs) {
          if (in.valid() && ShareOf(in) == Share::kWhole && from_batch_[in.index()] &&
              from_params_[in.index()]) {
            return {};
          }
        }
        return share;
      case Family::kBatchedGemm:
      case Family::kAttention:
        for (const ValueId in : node.inputs) {
          if (in.valid() && from_params_[in.index()] && ShareOf(in) == Share::kWhole) return {};
        }
        if (work->batch % ranks_ != 0) return {};
        return Share::kHeads;
      case Family::kSoftmax:
      case Family::kReduction:
        if (share == Share::kHeads) return share;
        return {};
      default:
        return {};
    }
  }

  // One pass over the forward nodes; false: a layer was found that cannot be cut, begin again.
  bool Assign() {
    share_.assign(graph_.values.size(), Share::kWhole);
    sources_.assign(graph_.values.size(), {});
    columns_.clear();
    rows_.clear();
    std::set<int> closed;
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kForward && node.phase != Phase::kLoss) continue;
      const std::set<int> sources = SourcesOf(node);
      if (IsLinear(node) && IsForward(node)) {
        const ValueId out = node.outputs[0];
        if (!sources.empty()) {
          rows_.insert(node.id.value());
          closed.insert(sources.begin(), sources.end());
        } else if (!whole_.contains(node.id.value()) && Width(out) % ranks_ == 0) {
          columns_.insert(node.id.value());
          share_[out.index()] = Share::kFeatures;
          sources_[out.index()] = {node.id.value()};
        }
        continue;
      }
      if (sources.empty()) continue;
      const std::optional<Share> through = Through(node);
      if (!through.has_value()) {
        whole_.insert(sources.begin(), sources.end());
        return false;
      }
      for (const ValueId out : node.outputs) {
        share_[out.index()] = *through;
        sources_[out.index()] = sources;
      }
    }
    bool all_closed = true;
    for (const int column : columns_) {
      if (closed.contains(column)) continue;
      whole_.insert(column);
      all_closed = false;
    }
    return all_closed;
  }

  // Parameters that `id` is made of are shares.
  void MarkParams(ValueId id, TensorSplit* split) const {
    const Value& value = graph_.value(id);
    if (from_batch_[id.index()] || !from_params_[id.index()]) return;
    split->values[id.index()] = true;
    if (value.producer.valid()) {
      for (const ValueId in : graph_.node(value.producer).inputs) {
        if (in.valid()) MarkParams(in, split);
      }
    }
  }

  void Forward(TensorSplit* split) const {
    for (const Node& node : graph_.nodes) {
      if (!IsForward(node)) continue;
      TensorSplit::NodeCut& cut = split->nodes[node.id.index()];
      const bool row = rows_.contains(node.id.value());
      const bool column = columns_.contains(node.id.value());
      if (row || column) {
        cut = {true, row ? Depth(node) : Width(node.outputs[0])};
        if (row) {
          cut.reduce_bytes =
              static_cast<double>(graph_.value(node.outputs[0]).type.bytes().count());
          ++split->pairs;
        }
        MarkParams(node.inputs[1], split);
        if (column && node.inputs.size() > 2 && node.inputs[2].valid()) {
          MarkParams(node.inputs[2], split);
        }
      } else if (!SourcesOf(node).empty()) {
        cut.cut = true;
        for (const ValueId in : node.inputs) {
          if (in.valid()) MarkParams(in, split);
        }
      }
      for (const ValueId out : node.outputs) {
        if (ShareOf(out) != Share::kWhole) split->values[out.index()] = true;
      }
    }
  }

  void Backward(TensorSplit* split) const {
    std::map<ValueId, NodeId> last;  // backward node of column-cut layers, by what they read
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kBackward || !node.mirror.valid()) continue;
      const TensorSplit::NodeCut forward = split->nodes[node.mirror.index()];
      if (!forward.cut) continue;
      split->nodes[node.id.index()] = {true, forward.dimension};
      const Node& mirror = graph_.node(node.mirror);
      const bool column = columns_.contains(mirror.id.value());
      const int64_t whole = NumElements(graph_.value(mirror.inputs[0]).type.shape);
      for (const ValueId out : node.outputs) {
        const bool to_input = column && NumElements(graph_.value(out).type.shape) == whole;
        split->values[out.index()] = !to_input;
      }
      if (column && from_params_[mirror.inputs[0].index()]) last[mirror.inputs[0]] = node.id;
    }
    for (const auto& [x, node] : last) {
      split->nodes[node.index()].reduce_bytes +=
          static_cast<double>(graph_.value(x).type.bytes().count());
    }
  }

  void Slots(TensorSplit* split) const {
    for (const Value& value : graph_.values) {
      if (value.slot_of.valid() && split->values[value.slot_of.index()]) {
        split->values[value.id.index()] = true;
      }
    }
    for (const Node& node : graph_.nodes) {
      if (node.phase != Phase::kUpdate) continue;
      for (const ValueId in : node.inputs) {
        if (in.valid() && graph_.value(in).role == Role::kParam && split->values[in.index()]) {
          split->nodes[node.id.index()].cut = true;
        }
      }
    }
  }

  const Graph& graph_;
  const int64_t ranks_;
  std::vector<bool> from_batch_, from_params_;
  std::vector<Share> share_;
  std::vector<std::set<int>> sources_;
  std::set<int> whole_, columns_, rows_;  // linear layers by node
};

double ProductBytes(const Work& work) {
  const auto m = double(work.m), n = double(work.n), k = double(work.k);
  return double(work.batch) * (m * n + m * k + n * k);
}

}  // namespace

Work CutElements(Work work, int64_t ranks) {
  if (ranks <= 1) return work;
  int64_t* const parts = work.family == Family::kBatchedGemm || work.family == Family::kAttention
                             ? &work.batch
                             : &work.m;
  *parts = std::max<int64_t>((*parts + ranks - 1) / ranks, 1);
  work.flops /= static_cast<double>(ranks);
  work.bytes /= static_cast<double>(ranks);
  return work;
}

Work CutProduct(Work work, int64_t dimension, int64_t ranks) {
  if (ranks <= 1) return work;
  if (!IsProduct(work.family)) return CutElements(work, ranks);
  int64_t* const part = work.n == dimension   ? &work.n
                        : work.m == dimension ? &work.m
                        : work.k == dimension ? &work.k
                                              : nullptr;
  if (part == nullptr) return CutElements(work, ranks);
  const double before = ProductBytes(work);
  *part = std::max<int64_t>((*part + ranks - 1) / ranks, 1);
  work.flops /= static_cast<double>(ranks);
  if (before > 0) work.bytes *= ProductBytes(work) / before;
  return work;
}

TensorSplit SplitTensors(const Graph& graph, int64_t ranks) {
  if (ranks <= 1) {
    TensorSplit whole;
    whole.nodes.resize(graph.nodes.size());
    whole.values.assign(graph.values.size(), false);
    return whole;
  }
  return Splitter(graph, ranks).Make();
}

}  // namespace ebb::perfmodel
