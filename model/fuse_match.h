// Looking at a forward graph from the results back: which node makes a value, through which
// numbers. Private to model.
#pragma once

#include <vector>

#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::model {

// Parts of a match, in no order: nodes that disappear if it is taken.
using Parts = std::vector<NodeId>;

class GraphView {
 public:
  explicit GraphView(const graph::Graph& graph);

  const graph::Graph& graph() const { return graph_; }
  // The node that makes `value` if it is an `op`; null otherwise.
  const graph::Node* MadeBy(ValueId value, absl::string_view op) const;
  // The same, as part of a match.
  const graph::Node* Take(ValueId value, absl::string_view op, Parts* parts) const;
  // A float constant of one element.
  bool IsNumber(ValueId value, double* number) const;

  // value = scale * base + shift: through any number of Scale nodes.
  struct Affine {
    ValueId base;
    double scale = 1;
    double shift = 0;
  };
  Affine AffineOf(ValueId value, Parts* parts) const;
  // value = number * the product of factors: through Mul and Scale without shift.
  struct Product {
    double number = 1;
    std::vector<ValueId> factors;
  };
  Product ProductOf(ValueId value, Parts* parts) const;

  // Is everything that reads the results of `parts` itself a part or the root? Then they can go.
  bool OnlyServe(const Parts& parts, NodeId root) const;

 private:
  const graph::Graph& graph_;
  std::vector<std::vector<NodeId>> readers_;  // per value
  std::vector<bool> is_output_;               // per value
};

}  // namespace ebb::model
