#include "graph/op.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"

namespace ebb::graph {
namespace {

using Table = absl::flat_hash_map<absl::string_view, const OpDef*>;

Table* BuildTable() {
  auto* table = new Table;
  for (absl::Span<const OpDef> family :
       {ops::Elementwise(), ops::Binary(), ops::Logic(), ops::Matmul(), ops::Conv(), ops::Pool(),
        ops::Norm(), ops::GroupNorm(), ops::Movement(), ops::Index(), ops::Reduce(), ops::Loss(),
        ops::Metric(), ops::Update(), ops::Random(), ops::Recurrent(), ops::EmbeddingBags()}) {
    for (const OpDef& op : family) {
      EBB_CHECK(op.shape != nullptr);
      EBB_CHECK(table->emplace(op.name, &op).second);  // one row a name
    }
  }
  return table;
}

const Table& OpTable() {
  static const Table* const table = BuildTable();
  return *table;
}

}  // namespace

const OpDef* FindOp(absl::string_view name) {
  const auto it = OpTable().find(name);
  return it == OpTable().end() ? nullptr : it->second;
}

std::vector<const OpDef*> AllOps() {
  std::vector<const OpDef*> all;
  for (const auto& [name, op] : OpTable()) all.push_back(op);
  std::sort(all.begin(), all.end(),
            [](const OpDef* a, const OpDef* b) { return a->name < b->name; });
  return all;
}

OpCost CostOf(const Graph& graph, const Node& node) {
  OpCost cost;
  if (node.op->is_view) return cost;  // moves nothing
  for (ValueId input : node.inputs) {
    if (input.valid()) cost.bytes += graph.value(input).type.bytes();
  }
  for (ValueId output : node.outputs) cost.bytes += graph.value(output).type.bytes();
  for (int input : node.op->mutates) {
    const auto i = static_cast<size_t>(input);
    if (i < node.inputs.size() && node.inputs[i].valid()) {
      cost.bytes += graph.value(node.inputs[i]).type.bytes();
    }
  }
  if (node.op->flops != nullptr) cost.flops = node.op->flops(graph, node);
  return cost;
}

}  // namespace ebb::graph
