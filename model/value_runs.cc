#include "model/value_runs.h"

#include <algorithm>

#include "graph/op.h"

namespace ebb::model {
namespace {

using graph::Graph;
using graph::Node;
using graph::NumElements;
using graph::Shape;

constexpr size_t kMaxRuns = 256;  // far above what two directions of four gates need
constexpr int kMaxDepth = 16;

void Append(std::vector<Run>* runs, const Run& run) {
  if (run.count == 0) return;
  if (!runs->empty()) {
    Run& last = runs->back();
    if (last.source == run.source && last.begin + last.count == run.begin) {
      last.count += run.count;
      return;
    }
  }
  runs->push_back(run);
}

// Axis `axis` is the first of more than one element: cutting along it cuts the row-major order.
bool Leads(const Shape& shape, int64_t axis) {
  return std::all_of(shape.begin(), shape.begin() + axis, [](int64_t dim) { return dim == 1; });
}

std::vector<Run> Find(const Graph& graph, ValueId id, int depth);

// Of a Slice that keeps one run of its input in order; empty for any other.
std::vector<Run> OfSlice(const Graph& graph, const Node& node, int depth) {
  const Shape& shape = graph.value(node.inputs[0]).type.shape;
  const auto axes = node.attrs.Ints("axes"), starts = node.attrs.Ints("starts");
  const auto steps = node.attrs.Ints("steps");
  if (axes.size() != 1 || steps[0] != 1 || !Leads(shape, axes[0])) return {};
  const int64_t inner = NumElements(Shape(shape.begin() + axes[0] + 1, shape.end()));
  const int64_t count = NumElements(graph.value(node.outputs[0]).type.shape);
  if (count == 0) return {};
  return PartOf(Find(graph, node.inputs[0], depth - 1), starts[0] * inner, count);
}

std::vector<Run> Find(const Graph& graph, ValueId id, int depth) {
  const graph::Value& value = graph.value(id);
  const std::vector<Run> itself = {{id, 0, NumElements(value.type.shape)}};
  if (depth == 0 || !value.producer.valid()) return itself;
  const Node& node = graph.node(value.producer);
  const absl::string_view op = node.op->name;
  if (op == "Reshape" || op == "Identity") return Find(graph, node.inputs[0], depth - 1);
  std::vector<Run> runs;
  if (op == "Slice") {
    runs = OfSlice(graph, node, depth);
  } else if (op == "Concat" && Leads(value.type.shape, node.attrs.Int("axis", 0))) {
    for (const ValueId part : node.inputs) {
      for (const Run& run : Find(graph, part, depth - 1)) Append(&runs, run);
      if (runs.size() > kMaxRuns) return itself;
    }
  }
  return runs.empty() ? itself : runs;
}

}  // namespace

std::vector<Run> RunsOf(const Graph& graph, ValueId value) { return Find(graph, value, kMaxDepth); }

std::vector<Run> PartOf(const std::vector<Run>& runs, int64_t begin, int64_t count) {
  std::vector<Run> part;
  for (const Run& run : runs) {
    const int64_t skipped = std::min(begin, run.count);
    const int64_t taken = std::min(run.count - skipped, count);
    Append(&part, {run.source, run.begin + skipped, taken});
    begin -= skipped;
    count -= taken;
  }
  return part;
}

}  // namespace ebb::model
