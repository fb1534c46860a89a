#include "model/fuse_match.h"

#include <algorithm>

#include "graph/op.h"
#include "model/host_tensor.h"

namespace ebb::model {

using graph::Node;
using graph::Role;
using graph::Value;

GraphView::GraphView(const graph::Graph& graph)
    : graph_(graph), readers_(graph.values.size()), is_output_(graph.values.size(), false) {
  for (const Node& node : graph.nodes) {
    for (ValueId input : node.inputs) {
      if (input.valid()) readers_[input.index()].push_back(node.id);
    }
  }
  for (ValueId output : graph.outputs) is_output_[output.index()] = true;
}

const Node* GraphView::MadeBy(ValueId value, absl::string_view op) const {
  if (!value.valid()) return nullptr;
  const NodeId producer = graph_.value(value).producer;
  if (!producer.valid()) return nullptr;
  const Node& node = graph_.node(producer);
  return node.op->name == op && node.outputs[0] == value ? &node : nullptr;
}

const Node* GraphView::Take(ValueId value, absl::string_view op, Parts* parts) const {
  const Node* node = MadeBy(value, op);
  if (node != nullptr) parts->push_back(node->id);
  return node;
}

bool GraphView::IsNumber(ValueId value, double* number) const {
  const Value& constant = graph_.value(value);
  if (constant.role != Role::kConstant || !graph::IsFloat(constant.type.dtype) ||
      graph::NumElements(constant.type.shape) != 1) {
    return false;
  }
  *number = FirstAsDouble(*constant.data);
  return true;
}

GraphView::Affine GraphView::AffineOf(ValueId value, Parts* parts) const {
  Affine affine{value};
  while (const Node* node = Take(affine.base, "Scale", parts)) {
    affine.shift += affine.scale * node->attrs.Float("shift", 0);
    affine.scale *= node->attrs.Float("scale", 1);
    affine.base = node->inputs[0];
  }
  return affine;
}

GraphView::Product GraphView::ProductOf(ValueId value, Parts* parts) const {
  Product product;
  std::vector<ValueId> work = {value};
  while (!work.empty()) {
    const ValueId factor = work.back();
    work.pop_back();
    const Node* scale = MadeBy(factor, "Scale");
    if (scale != nullptr && scale->attrs.Float("shift", 0) == 0) {
      parts->push_back(scale->id);
      product.number *= scale->attrs.Float("scale", 1);
      work.push_back(scale->inputs[0]);
    } else if (const Node* mul = Take(factor, "Mul", parts)) {
      work.push_back(mul->inputs[1]);
      work.push_back(mul->inputs[0]);
    } else {
      product.factors.push_back(factor);
    }
    if (product.factors.size() + work.size() > 8) break;  // no layer that is looked for here
  }
  return product;
}

bool GraphView::OnlyServe(const Parts& parts, NodeId root) const {
  for (NodeId part : parts) {
    if (part == root) continue;
    for (ValueId output : graph_.node(part).outputs) {
      if (is_output_[output.index()]) return false;
      for (NodeId reader : readers_[output.index()]) {
        if (reader != root && std::find(parts.begin(), parts.end(), reader) == parts.end()) {
          return false;
        }
      }
    }
  }
  return true;
}

}  // namespace ebb::model
