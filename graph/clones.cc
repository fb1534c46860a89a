#include "graph/clones.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "graph/op.h"

namespace ebb::graph {
namespace {

constexpr int kMostInARow = 64;  // clones that read one another

bool IsBackward(const Node& node) { return node.phase >= Phase::kBackward; }

// Appends nodes to a graph whose values exist already.
class Assembler {
 public:
  Assembler(Graph base, const std::vector<Node>& nodes, const Clones& clones)
      : graph_(std::move(base)), nodes_(nodes), clones_(clones), new_id_(nodes.size()) {
    clone_of_.resize(graph_.values.size());
    before_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (clones.place[i] == Clones::kNone) continue;
      before_[static_cast<size_t>(clones.place[i])].push_back(i);
    }
  }

  Graph Run() {
    for (const Node& node : nodes_) {
      for (size_t i : before_[node.id.index()]) AppendClone(nodes_[i], node.mirror);
      Node copy = node;
      if (IsBackward(node)) ReadClones(copy);
      new_id_[node.id.index()] = Append(std::move(copy), node.mirror);
    }
    return std::move(graph_);
  }

 private:
  void ReadClones(Node& node) const {
    for (ValueId& input : node.inputs) {
      if (input.valid() && clones_.from_clone[input.index()]) input = clone_of_[input.index()];
    }
  }

  void AppendClone(const Node& original, NodeId mirror) {
    Node clone = *CloneRules::CloneOf(original);
    clone.name = absl::StrCat("recompute/", original.name);
    clone.phase = Phase::kBackward;
    ReadClones(clone);
    for (ValueId& output : clone.outputs) {
      const Value like = graph_.value(output);
      const ValueId made =
          graph_.AddValue(absl::StrCat("recompute/", like.name), like.type, Role::kActivation);
      graph_.value(made).layout = like.layout;
      clone_of_[output.index()] = made;
      output = made;
    }
    Append(std::move(clone), mirror);
  }

  NodeId Append(Node node, NodeId mirror) {
    node.id = NodeId(static_cast<int32_t>(graph_.nodes.size()));
    node.mirror = mirror.valid() ? new_id_[mirror.index()] : mirror;
    for (ValueId output : node.outputs) graph_.value(output).producer = node.id;
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().id;
  }

  Graph graph_;
  const std::vector<Node>& nodes_;
  const Clones& clones_;
  std::vector<NodeId> new_id_;               // by old node id
  std::vector<ValueId> clone_of_;            // by value
  std::vector<std::vector<size_t>> before_;  // by node: nodes whose clones run before it, in order
};

}  // namespace

CloneRules::CloneRules(const Graph& graph)
    : graph_(graph),
      showing_(graph.values.size()),
      first_backward_read_(graph.values.size(), static_cast<int>(graph.nodes.size())),
      last_backward_read_(graph.values.size(), -1),
      last_forward_use_(graph.values.size(), -1),
      forward_readers_(graph.values.size()),
      writes_(graph.values.size()) {
  for (const Value& value : graph.values) content_.push_back(value.id);
  for (const Node& node : graph.nodes) {
    const int index = node.id.value();
    if (node.op->is_view) {
      content_[node.outputs[0].index()] = content_[node.inputs[0].index()];
    }
    for (ValueId input : node.inputs) {
      if (!input.valid()) continue;
      if (!IsBackward(node)) {
        last_forward_use_[input.index()] = index;
        forward_readers_[input.index()].push_back(node.id);
      } else {
        int& first = first_backward_read_[input.index()];
        first = std::min(first, index);
        last_backward_read_[input.index()] = index;
      }
    }
    for (ValueId output : node.outputs) {
      if (!IsBackward(node)) last_forward_use_[output.index()] = index;
    }
    for (int mutated : node.op->mutates) {
      const auto i = static_cast<size_t>(mutated);
      if (i >= node.inputs.size() || !node.inputs[i].valid()) continue;
      writes_[content_[node.inputs[i].index()].index()].push_back(index);
    }
  }
  for (const Value& value : graph.values) {
    showing_[content_[value.id.index()].index()].push_back(value.id);
  }
}

std::optional<Node> CloneRules::CloneOf(const Node& node) {
  Node clone = node;
  if (node.op->name == "BatchNorm") {
    clone.op = FindOp("BatchNormInference");
    clone.inputs = {node.inputs[0], node.inputs[1], node.inputs[2], node.outputs[1],
                    node.outputs[2]};
    clone.outputs.resize(1);
    clone.attrs.Erase("momentum");
    return clone;
  }
  if (!node.op->mutates.empty()) return std::nullopt;
  return clone;
}

bool CloneRules::IsWanted(ValueId value, const Clones& clones) const {
  if (first_backward_read_[value.index()] < static_cast<int>(graph_.nodes.size())) return true;
  const std::vector<NodeId>& readers = forward_readers_[value.index()];
  return std::any_of(readers.begin(), readers.end(),
                     [&](NodeId reader) { return clones.place[reader.index()] != Clones::kNone; });
}

bool CloneRules::Add(ValueId value, Clones* clones) const {
  return Take(value, static_cast<int>(graph_.nodes.size()), 0, clones);
}

// A clone that makes `value` no later than before node `place`.
bool CloneRules::Take(ValueId value, int place, int depth, Clones* clones) const {
  const NodeId producer = graph_.value(value).producer;
  if (graph_.value(value).role != Role::kActivation || !producer.valid() || depth == kMostInARow) {
    return false;
  }
  const Node& node = graph_.node(producer);
  if (IsBackward(node)) return false;
  const std::optional<Node> clone = CloneOf(node);
  if (!clone ||
      std::find(clone->outputs.begin(), clone->outputs.end(), value) == clone->outputs.end()) {
    return false;
  }
  place = std::min(place, first_backward_read_[value.index()]);
  for (NodeId reader : forward_readers_[value.index()]) {
    const int read = clones->place[reader.index()];
    if (read != Clones::kNone) place = std::min(place, read);
  }
  clones->from_clone[value.index()] = true;
  int& at = clones->place[producer.index()];
  if (at != Clones::kNone && at <= place) return true;
  at = place;
  return std::all_of(clone->inputs.begin(), clone->inputs.end(), [&](ValueId input) {
    return !input.valid() || Supply(input, producer, value, depth, clones);
  });
}

// Sees to it that the clone of `reader`, which makes `wanted`, finds its operand.
bool CloneRules::Supply(ValueId input, NodeId reader, ValueId wanted, int depth,
                        Clones* clones) const {
  const int place = clones->place[reader.index()];
  const Value& content = graph_.value(content_[input.index()]);
  if (IsResident(content.role)) return !IsWritten(content.id, reader.value(), place);
  if (clones->from_clone[input.index()] || clones->from_clone[content.id.index()]) {
    return Take(input, place, depth + 1, clones);
  }
  if (content.role == Role::kInput || IsStillRead(content.id, place, *clones)) return true;
  // What is small beside the value that it helps to free may as well be kept.
  if (content.type.bytes() * 4 <= graph_.value(wanted).type.bytes()) return true;
  return Take(input, place, depth + 1, clones);
}

// Does backward, at node `from` or later, read these bytes as forward made them?
bool CloneRules::IsStillRead(ValueId content, int from, const Clones& clones) const {
  const std::vector<ValueId>& values = showing_[content.index()];
  return std::any_of(values.begin(), values.end(), [&](ValueId value) {
    return last_backward_read_[value.index()] >= from && !clones.from_clone[value.index()];
  });
}

bool CloneRules::IsWritten(ValueId resident, int after, int before) const {
  const std::vector<int>& writes = writes_[resident.index()];
  return std::any_of(writes.begin(), writes.end(),
                     [&](int write) { return write > after && write < before; });
}

Graph WithClones(Graph base, const std::vector<Node>& nodes, const Clones& clones) {
  return Assembler(std::move(base), nodes, clones).Run();
}

}  // namespace ebb::graph
