#include "graph/freeze.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/glob.h"
#include "base/status.h"
#include "graph/op.h"
#include "graph/rewrite.h"

namespace ebb::graph {
namespace {

std::string LayerOf(const std::string& name) {
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? name : name.substr(0, dot);
}

std::vector<std::string> NamesOf(const Graph& graph, const Node& node) {
  std::vector<std::string> names = {node.name};
  for (const size_t input : {size_t{1}, size_t{3}}) {  // scale, running mean
    names.push_back(graph.value(node.inputs[input]).name);
    names.push_back(LayerOf(names.back()));
  }
  return names;
}

// Which globs name the node.
std::vector<bool> Matches(const Graph& graph, const Node& node,
                          const std::vector<std::string>& globs) {
  const std::vector<std::string> names = NamesOf(graph, node);
  std::vector<bool> matches;
  for (const std::string& glob : globs) {
    matches.push_back(std::any_of(names.begin(), names.end(),
                                  [&](const std::string& name) { return GlobMatch(glob, name); }));
  }
  return matches;
}

absl::Status NothingNamed(const Graph& graph, const std::string& glob) {
  constexpr size_t kShown = 4;
  std::vector<std::string> layers;
  for (const Node& node : graph.nodes) {
    if (node.op->name != "BatchNorm" || layers.size() > kShown) continue;
    layers.push_back(layers.size() == kShown ? "..." : LayerOf(graph.value(node.inputs[3]).name));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", glob, "' names no batch norm that is trained with statistics of the batch; ",
      layers.empty() ? "the model has none"
                     : absl::StrCat("there is ", absl::StrJoin(layers, ", "))));
}

}  // namespace

absl::StatusOr<Graph> FreezeStatistics(const Graph& forward,
                                       const std::vector<std::string>& globs) {
  EBB_RETURN_IF_ERROR(Verify(forward));
  std::vector<bool> used(globs.size());
  GraphCopy copy = CopyLeaves(forward, std::vector<bool>(forward.nodes.size(), true));
  for (const Node& node : forward.nodes) {
    bool frozen = false;
    if (node.op->name == "BatchNorm") {
      const std::vector<bool> matches = Matches(forward, node, globs);
      for (size_t g = 0; g < globs.size(); ++g) {
        used[g] = used[g] || matches[g];
        frozen |= matches[g];
      }
    }
    if (!frozen) {
      EBB_RETURN_IF_ERROR(CopyNode(forward, node, copy));
      continue;
    }
    const ValueId made = node.outputs[0];
    EBB_ASSIGN_OR_RETURN(
        const ValueId y,
        copy.graph.Add("BatchNormInference", node.name, Mapped(copy, node.inputs),
                       {{"epsilon", node.attrs.Float("epsilon", 1e-5)}}, node.phase));
    copy.graph.Rename(y, forward.value(made).name);
    copy.map[made.index()] = y;
  }
  for (size_t g = 0; g < globs.size(); ++g) {
    if (!used[g]) return NothingNamed(forward, globs[g]);
  }
  for (const ValueId output : forward.outputs) {
    copy.graph.outputs.push_back(copy.map[output.index()]);
    if (copy.graph.outputs.back().valid()) continue;
    return absl::InvalidArgumentError(absl::StrCat("the output '", forward.value(output).name,
                                                   "' is the batch's statistic of a frozen layer"));
  }
  return std::move(copy.graph);
}

}  // namespace ebb::graph
