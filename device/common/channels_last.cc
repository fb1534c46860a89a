// Walks the nodes in order: convolutions want channels last, ops that can follow their operands do,
// all others get plain operands.
#include "device/common/channels_last.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "device/common/operands.h"
#include "graph/op.h"

namespace ebb::device {
namespace {

using graph::Phase;
using graph::Role;

enum class Habit {
  kPlain,    // reads and makes plain values
  kWants,    // channels last whatever its operands are
  kFollows,  // channels last if an operand is
  kReads,    // reads either, makes plain values
};

struct OpLayout {
  Habit habit = Habit::kPlain;
  // The operands and results that habit speaks of; the others are plain. Empty `data`: all inputs.
  std::vector<size_t> data;
  std::vector<size_t> results;
};

const OpLayout* TableEntry(absl::string_view op) {
  static const auto* const table = new absl::flat_hash_map<absl::string_view, OpLayout>{
      {"Conv", {Habit::kWants, {0}, {0}}},
      {"ConvGradInput", {Habit::kWants, {0}, {0}}},
      {"ConvGradWeight", {Habit::kWants, {0, 1}, {}}},
      {"MaxPool", {Habit::kFollows, {0}, {0, 1}}},
      {"MaxPoolGrad", {Habit::kFollows, {0, 1}, {0}}},
      {"AveragePool", {Habit::kFollows, {0}, {0}}},
      {"AveragePoolGrad", {Habit::kFollows, {0}, {0}}},
      {"BatchNorm", {Habit::kFollows, {0}, {0}}},
      {"BatchNormGrad", {Habit::kFollows, {0, 1}, {0}}},
      {"BatchNormInference", {Habit::kFollows, {0}, {0}}},
      {"BatchNormInferenceGrad", {Habit::kFollows, {0, 1}, {0}}},
      {"Lrn", {Habit::kFollows, {0}, {0}}},
      {"LrnGrad", {Habit::kFollows, {0, 1}, {0}}},
      {"Concat", {Habit::kFollows, {}, {0}}},
      {"Where", {Habit::kFollows, {}, {0}}},
      {"Slice", {Habit::kFollows, {0}, {0}}},
      {"SliceGrad", {Habit::kFollows, {0}, {0}}},
      {"Pad", {Habit::kFollows, {0}, {0}}},
      {"Expand", {Habit::kFollows, {0}, {0}}},
      {"SumTo", {Habit::kFollows, {0}, {0}}},
      {"ReduceSum", {Habit::kFollows, {0}, {0}}},
      {"ReduceMean", {Habit::kFollows, {0}, {0}}},
      {"ReduceMax", {Habit::kFollows, {0}, {0}}},
      {"ReduceMin", {Habit::kFollows, {0}, {0}}},
      {"ReduceProd", {Habit::kFollows, {0}, {0}}},
      {"ReduceProdGrad", {}},
      {"Transpose", {Habit::kReads, {0}, {}}},
      // Random numbers are counted in plain order; losses are sums over it.
      {"Dropout", {}},
      {"DropoutGrad", {}},
      {"BceWithLogits", {}},
      {"BceWithLogitsGrad", {}},
      {"MseLoss", {}},
      {"MseLossGrad", {}},
  };
  const auto it = table->find(op);
  return it == table->end() ? nullptr : &it->second;
}

// Shape with leading ones up to rank 4.
Shape Padded(const Shape& shape) {
  Shape result(4 - shape.size(), 1);
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

class Pass {
 public:
  explicit Pass(Graph graph) : graph_(std::move(graph)) {}

  absl::StatusOr<Graph> Run() {
    const bool any = std::any_of(graph_.nodes.begin(), graph_.nodes.end(), [&](const Node& node) {
      return node.op->name == "Conv" && In(graph_, node).type.shape.size() == 4;
    });
    if (!any) return std::move(graph_);
    to_last_ = graph::FindOp("ToChannelsLast");
    to_plain_ = graph::FindOp("ToPlain");
    if (to_last_ == nullptr || to_plain_ == nullptr) {
      return absl::InternalError("the op table has no ToChannelsLast and ToPlain");
    }
    FindFollowers();
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    new_id_.assign(old.size(), NodeId());
    for (Node& node : old) Rewrite(std::move(node));
    return std::move(graph_);
  }

 private:
  // May this value be channels last at all, and would that be another order?
  bool Can(ValueId id) const {
    const Value& value = graph_.value(id);
    return value.type.shape.size() == 4 && !LayoutFree(value.type.shape);
  }
  bool IsLast(ValueId id) const { return graph_.value(id).layout == Layout::kChannelsLast; }

  OpLayout LayoutOf(const Node& node) const {
    const OpLayout* entry = TableEntry(node.op->name);
    OpLayout layout;
    if (entry != nullptr) {
      layout = *entry;
    } else if (node.op->elementwise) {
      layout = {Habit::kFollows, {}, {0}};
    }
    if (layout.habit == Habit::kPlain) return layout;
    if (layout.data.empty()) {
      for (size_t i = 0; i < node.inputs.size(); ++i) layout.data.push_back(i);
    }
    if (!Fits(node, layout)) return OpLayout{};
    return layout;
  }

  // Has every operand the same meaning in both orders?
  bool Fits(const Node& node, const OpLayout& layout) const {
    const Shape& out = graph_.value(node.outputs[0]).type.shape;
    const Shape& first = graph_.value(node.inputs[layout.data[0]]).type.shape;
    if (node.op->name == "ConvGradWeight") return first.size() == 4;
    if (absl::StartsWith(node.op->name, "Reduce") || node.op->name == "SumTo") {
      return first.size() == 4 && (out.size() == 4 || KeepsOneSide(node, first));
    }
    if (layout.habit == Habit::kReads) return first.size() == 4;
    if (out.size() != 4) return false;
    for (const size_t i : layout.data) {
      const Shape& shape = graph_.value(node.inputs[i]).type.shape;
      if (shape.size() < 4 && !LayoutFree(Padded(shape))) return false;
    }
    return true;
  }

  // A reduction to fewer dimensions keeps channels or positions, not both: one order is left.
  bool KeepsOneSide(const Node& node, const Shape& x) const {
    std::vector<bool> kept(4, true);
    if (node.op->name == "SumTo") {
      const Shape to = Padded(graph_.value(node.outputs[0]).type.shape);
      for (size_t d = 0; d < 4; ++d) kept[d] = to[d] == x[d];
    } else {
      for (const int64_t axis : node.attrs.Ints("axes")) kept[static_cast<size_t>(axis)] = false;
    }
    const bool channels = kept[1] && x[1] > 1;
    const bool positions = (kept[2] && x[2] > 1) || (kept[3] && x[3] > 1);
    return !(channels && positions);
  }

  // Results of Expand have no operand to follow: they follow their readers.
  void FindFollowers() {
    wanted_.assign(graph_.values.size(), false);
    for (const Node& node : graph_.nodes) {
      const OpLayout layout = LayoutOf(node);
      if (layout.habit != Habit::kWants && layout.habit != Habit::kFollows) continue;
      for (const size_t i : layout.data) {
        if (node.inputs[i].valid()) wanted_[node.inputs[i].index()] = true;
      }
    }
  }

  bool RunsLast(const Node& node, const OpLayout& layout) const {
    if (layout.habit == Habit::kWants) return true;
    if (layout.habit != Habit::kFollows) return false;
    bool operand = false;
    for (const size_t i : layout.data) {
      if (!node.inputs[i].valid()) continue;
      if (IsLast(node.inputs[i])) return true;
      operand |= Can(node.inputs[i]);
    }
    return node.op->name == "Expand" && !operand && wanted_[node.outputs[0].index()];
  }

  void Rewrite(Node node) {
    const OpLayout layout = LayoutOf(node);
    const bool last = RunsLast(node, layout);
    const NodeId old_id = node.id;
    if (node.mirror.valid()) node.mirror = new_id_[node.mirror.index()];
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const bool data = std::find(layout.data.begin(), layout.data.end(), i) != layout.data.end();
      if (data && layout.habit == Habit::kReads) continue;
      node.inputs[i] = InOrder(node, node.inputs[i], data && last);
    }
    // Metrics and outputs of the graph are read by others: their plain form keeps the id.
    std::vector<std::pair<ValueId, ValueId>> copies;  // channels last, plain
    for (const size_t i : last ? layout.results : std::vector<size_t>()) {
      const ValueId id = node.outputs[i];
      if (!Can(id)) continue;
      if (IsPublic(id)) {
        const ValueId inner = NewValue(id, Layout::kChannelsLast);
        node.outputs[i] = inner;
        copies.emplace_back(inner, id);
        converted_[{id, Layout::kChannelsLast}] = inner;
      } else {
        graph_.value(id).layout = Layout::kChannelsLast;
      }
    }
    const Phase phase = node.phase;
    const NodeId mirror = node.mirror;
    new_id_[old_id.index()] = Append(std::move(node));
    for (const auto& [inner, plain] : copies) Convert(inner, plain, to_plain_, phase, mirror);
  }

  bool IsPublic(ValueId id) const {
    return graph_.value(id).role != Role::kActivation ||
           std::find(graph_.outputs.begin(), graph_.outputs.end(), id) != graph_.outputs.end();
  }

  // `id` in the order that a node wants; made before the node if it is not there yet.
  ValueId InOrder(const Node& reader, ValueId id, bool want_last) {
    if (!Can(id) || IsLast(id) == want_last) return id;
    const Layout layout = want_last ? Layout::kChannelsLast : Layout::kPlain;
    ValueId& copy = converted_[{id, layout}];
    if (!copy.valid()) {
      copy = NewValue(id, layout);
      const Phase phase = reader.phase == Phase::kUpdate ? Phase::kBackward : reader.phase;
      Convert(id, copy, want_last ? to_last_ : to_plain_, phase, reader.mirror);
    }
    return copy;
  }

  ValueId NewValue(ValueId like, Layout layout) {
    const Value& value = graph_.value(like);
    const std::string name =
        absl::StrCat(value.name, layout == Layout::kPlain ? ".plain" : ".channels_last");
    const ValueId id = graph_.AddValue(name, value.type, Role::kActivation);
    graph_.value(id).layout = layout;
    return id;
  }

  void Convert(ValueId from, ValueId to, const graph::OpDef* op, Phase phase, NodeId mirror) {
    Node node;
    node.name = absl::StrCat(op->name, "/", graph_.value(from).name);
    node.op = op;
    node.inputs = {from};
    node.outputs = {to};
    node.phase = phase;
    node.mirror = mirror;
    Append(std::move(node));
  }

  NodeId Append(Node node) {
    node.id = NodeId(static_cast<int32_t>(graph_.nodes.size()));
    for (const ValueId out : node.outputs) graph_.value(out).producer = node.id;
    graph_.nodes.push_back(std::move(node));
    return graph_.nodes.back().id;
  }

  Graph graph_;
  const graph::OpDef* to_last_ = nullptr;
  const graph::OpDef* to_plain_ = nullptr;
  std::vector<NodeId> new_id_;  // by old node id
  std::vector<bool> wanted_;    // by value: an op that can run channels last reads it
  std::map<std::pair<ValueId, Layout>, ValueId> converted_;
};

}  // namespace

absl::StatusOr<Graph> ToChannelsLast(Graph graph) { return Pass(std::move(graph)).Run(); }

}  // namespace ebb::device
