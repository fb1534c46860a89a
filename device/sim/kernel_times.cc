#include "device/sim/kernel_times.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "graph/op.h"

namespace ebb::device {
namespace {

std::string Operands(const graph::Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> texts;
  for (const ValueId id : ids) {
    if (!id.valid()) {
      texts.emplace_back("-");
      continue;
    }
    const graph::Value& value = graph.value(id);
    const bool last = value.layout == graph::Layout::kChannelsLast;
    texts.push_back(absl::StrCat(graph::ToString(value.type), last ? " channels last" : ""));
  }
  return absl::StrJoin(texts, ", ");
}

}  // namespace

std::string KernelKey(const graph::Graph& graph, const graph::Node& node) {
  std::string key = absl::StrCat(node.op->name, "(", Operands(graph, node.inputs), ")");
  graph::Attrs attrs = node.attrs;
  attrs.Erase("tf32");  // measured times are those of strict f32
  if (!attrs.map().empty()) absl::StrAppend(&key, " ", graph::ToString(attrs));
  if (!node.outputs.empty()) absl::StrAppend(&key, " -> ", Operands(graph, node.outputs));
  return key;
}

}  // namespace ebb::device
