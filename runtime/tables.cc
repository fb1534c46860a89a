#include "runtime/tables.h"

#include "graph/op.h"

namespace ebb::runtime {
namespace {

using graph::Graph;
using graph::Node;
using Ints = std::vector<int64_t>;

const Node* ProducerOf(const Graph& graph, ValueId value) {
  const NodeId producer = graph.value(value).producer;
  return producer.valid() ? &graph.node(producer) : nullptr;
}

bool IsSlice(const Node& node, const Ints& axes) {
  return node.op->name == "Slice" && node.attrs.Ints("axes") == axes &&
         node.attrs.Ints("steps") == Ints(axes.size(), 1);
}

// The same numbers in the same order.
bool Keeps(const Graph& graph, const Node& node) {
  return node.op->is_view ||
         (node.op->name == "Cast" && !graph::IsFloat(graph.value(node.inputs[0]).type.dtype));
}

// The slice along axis 1 that `indices` shows; null: none.
const Node* ColumnsIn(const Graph& graph, ValueId indices) {
  const Node* node = ProducerOf(graph, indices);
  while (node != nullptr && !IsSlice(*node, {1})) {
    node = Keeps(graph, *node) ? ProducerOf(graph, node->inputs[0]) : nullptr;
  }
  return node;
}

// Is `value` the input, or a part of its batch?
bool IsBatchOf(const Graph& graph, ValueId value, ValueId input) {
  while (value != input) {
    const Node* node = ProducerOf(graph, value);
    if (node == nullptr || !(IsSlice(*node, {0}) || node->op->name == "Cast")) return false;
    value = node->inputs[0];
  }
  return true;
}

}  // namespace

std::vector<data::ColumnTable> ColumnTablesOf(const Graph& graph, ValueId input) {
  std::vector<data::ColumnTable> tables;
  for (const Node& node : graph.nodes) {
    if (node.op->name != "Gather" && node.op->name != "EmbeddingBag") continue;
    const Node* columns = ColumnsIn(graph, node.inputs[1]);
    if (columns == nullptr || !IsBatchOf(graph, columns->inputs[0], input)) continue;
    const graph::Shape& whole = graph.value(columns->inputs[0]).type.shape;
    const int64_t inner = graph::NumElements(graph::Shape(whole.begin() + 2, whole.end()));
    const graph::Shape& table = graph.value(node.inputs[0]).type.shape;
    tables.push_back({.from = columns->attrs.Ints("starts")[0] * inner,
                      .to = columns->attrs.Ints("ends")[0] * inner,
                      .rows = table[static_cast<size_t>(node.attrs.Int("axis", 0))]});
  }
  return tables;
}

}  // namespace ebb::runtime
