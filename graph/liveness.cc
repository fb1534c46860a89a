#include "graph/liveness.h"

#include <algorithm>

#include "graph/op.h"

namespace ebb::graph {
namespace {

class Builder {
 public:
  explicit Builder(const Graph& graph) : graph_(graph), last_use_(graph.values.size(), -1) {
    result_.buffer_of.assign(graph.values.size(), -1);
    result_.alias_of.assign(graph.values.size(), ValueId());
    for (const Node& node : graph.nodes) {
      for (ValueId output : node.outputs) last_use_[output.index()] = node.id.value();
      for (ValueId input : node.inputs) {
        if (input.valid()) last_use_[input.index()] = node.id.value();
      }
    }
    const int last_node = static_cast<int>(graph.nodes.size()) - 1;
    for (ValueId output : graph.outputs) last_use_[output.index()] = last_node;
  }

  Liveness Build() {
    for (const Value& value : graph_.values) {
      if (value.role == Role::kInput && last_use_[value.id.index()] >= 0) NewBuffer(value.id, 0);
    }
    for (const Node& node : graph_.nodes) {
      for (size_t i = 0; i < node.outputs.size(); ++i) {
        const ValueId output = node.outputs[i];
        if (graph_.value(output).role != Role::kActivation) continue;
        if (i == 0 && node.op->is_view) {
          AddView(output, node.inputs[0]);
        } else if (const int over = i == 0 ? InPlaceBuffer(node) : -1; over >= 0) {
          Join(output, over);
        } else {
          NewBuffer(output, node.id.value());
        }
      }
    }
    for (Buffer& buffer : result_.buffers) buffer.cls = Classify(buffer);
    return std::move(result_);
  }

 private:
  void NewBuffer(ValueId value, int first) {
    Buffer buffer;
    buffer.bytes = graph_.value(value).type.bytes();
    buffer.first = first;
    result_.buffers.push_back(std::move(buffer));
    Join(value, static_cast<int>(result_.buffers.size()) - 1);
  }

  void Join(ValueId value, int index) {
    Buffer& buffer = result_.buffers[static_cast<size_t>(index)];
    buffer.values.push_back(value);
    buffer.last = std::max(buffer.last, last_use_[value.index()]);
    result_.buffer_of[value.index()] = index;
  }

  void AddView(ValueId view, ValueId of) {
    if (const int buffer = result_.buffer_of[of.index()]; buffer >= 0) return Join(view, buffer);
    const ValueId further = result_.alias_of[of.index()];
    result_.alias_of[view.index()] = further.valid() ? further : of;
  }

  // The buffer that the node's first output may overwrite, or -1. A buffer knows the last use of
  // all values that it holds so far, and a later view of one of them would be a later use.
  int InPlaceBuffer(const Node& node) const {
    const auto k = static_cast<size_t>(node.op->in_place);
    if (node.op->in_place < 0 || k >= node.inputs.size() || !node.inputs[k].valid()) return -1;
    const Value& input = graph_.value(node.inputs[k]);
    const Value& output = graph_.value(node.outputs[0]);
    const int index = result_.buffer_of[input.id.index()];
    if (index < 0 || input.type.bytes() != output.type.bytes() || input.layout != output.layout) {
      return -1;
    }
    if (result_.buffers[static_cast<size_t>(index)].last > node.id.value()) return -1;
    // The same bytes must not be read through another operand while they are overwritten.
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i != k && node.inputs[i].valid() && result_.buffer_of[node.inputs[i].index()] == index) {
        return -1;
      }
    }
    return index;
  }

  BufferClass Classify(const Buffer& buffer) const {
    const Value& value = graph_.value(buffer.values[0]);
    if (value.role == Role::kInput) return BufferClass::kInput;
    if (graph_.node(value.producer).op->name == "Fetch") return BufferClass::kStreamed;
    const bool made_forward = graph_.nodes[static_cast<size_t>(buffer.first)].phase <= Phase::kLoss;
    const bool used_backward =
        graph_.nodes[static_cast<size_t>(buffer.last)].phase >= Phase::kBackward;
    return made_forward && used_backward ? BufferClass::kSaved : BufferClass::kTransient;
  }

  const Graph& graph_;
  std::vector<int> last_use_;  // per value: the last node that reads or makes it
  Liveness result_;
};

}  // namespace

absl::string_view Name(BufferClass cls) {
  switch (cls) {
    case BufferClass::kInput:
      return "input";
    case BufferClass::kSaved:
      return "saved";
    case BufferClass::kTransient:
      return "transient";
    case BufferClass::kStreamed:
      return "streamed";
  }
  return "?";
}

Liveness ComputeLiveness(const Graph& graph) { return Builder(graph).Build(); }

Bytes LivePeak(const Liveness& liveness, int num_nodes) {
  std::vector<Bytes> change(static_cast<size_t>(num_nodes) + 1);
  for (const Buffer& buffer : liveness.buffers) {
    change[static_cast<size_t>(buffer.first)] += buffer.bytes;
    change[static_cast<size_t>(buffer.last) + 1] -= buffer.bytes;
  }
  Bytes live;
  Bytes peak;
  for (Bytes delta : change) {
    live += delta;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace ebb::graph
