#include "tests/device/case_graph.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/op.h"
#include "tests/testing/run_graph.h"

namespace ebb::testing {

using graph::Graph;
using graph::Layout;
using graph::Role;

bool MovesOrder(const OpCase& c) { return c.op == "ToChannelsLast" || c.op == "ToPlain"; }

bool HasOrder(const OpCase& c, Order order) {
  if (order == Order::kPlain) return !MovesOrder(c);
  return !c.last_in.empty() || !c.last_out.empty();
}

absl::StatusOr<CaseGraph> BuildCase(const OpCase& c, Order order) {
  const graph::OpDef* op = graph::FindOp(c.op);
  if (op == nullptr) return absl::NotFoundError(absl::StrCat("no op ", c.op));
  CaseGraph built;
  Graph& graph = built.graph;
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].absent) {
      inputs.push_back(ValueId());
      continue;
    }
    const bool written =
        std::find(op->mutates.begin(), op->mutates.end(), static_cast<int>(i)) != op->mutates.end();
    ValueId id = graph.AddValue(absl::StrCat("in", i), c.inputs[i].type,
                                written ? Role::kParam : Role::kInput);
    if (written) built.results.push_back(absl::StrCat("in", i));
    if (order == Order::kChannelsLast &&
        std::find(c.last_in.begin(), c.last_in.end(), i) != c.last_in.end()) {
      EBB_ASSIGN_OR_RETURN(id, graph.Add("ToChannelsLast", absl::StrCat("last", i), {id}));
      graph.value(id).layout = Layout::kChannelsLast;
    }
    if (c.inputs[i].stored.has_value()) {
      const Layout layout = graph.value(id).layout;
      const std::string to(graph::Name(*c.inputs[i].stored));
      EBB_ASSIGN_OR_RETURN(id, graph.Add("Cast", absl::StrCat("stored", i), {id}, {{"to", to}}));
      graph.value(id).layout = layout;
    }
    inputs.push_back(id);
  }
  while (!inputs.empty() && !inputs.back().valid()) inputs.pop_back();
  EBB_ASSIGN_OR_RETURN(const NodeId node, graph.AddNode(c.op, "op", inputs, c.attrs));
  const std::vector<ValueId> outputs = graph.node(node).outputs;
  for (size_t i = 0; i < outputs.size(); ++i) {
    built.results.push_back(graph.value(outputs[i]).name);
    if (order == Order::kChannelsLast &&
        std::find(c.last_out.begin(), c.last_out.end(), i) != c.last_out.end()) {
      graph.value(outputs[i]).layout = Layout::kChannelsLast;
    }
  }
  return built;
}

graph::TensorMap FeedsOf(const OpCase& c) {
  graph::TensorMap feeds;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const CaseInput& input = c.inputs[i];
    if (input.absent) continue;
    feeds[absl::StrCat("in", i)] = RandomTensor(input.type, 17 + i, input.min, input.max);
  }
  return feeds;
}

std::string Describe(const OpCase& c, Order order) {
  std::string text = c.op;
  for (const CaseInput& input : c.inputs) {
    absl::StrAppend(&text, " ", input.absent ? "-" : graph::ToString(input.type));
    if (input.stored.has_value()) absl::StrAppend(&text, " as ", graph::Name(*input.stored));
  }
  return absl::StrCat(text, " ", graph::ToString(c.attrs),
                      order == Order::kPlain ? "" : " channels last");
}

}  // namespace ebb::testing
