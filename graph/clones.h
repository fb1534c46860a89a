// Forward nodes that run a second time in backward: what may be cloned, what a clone needs, and the
// graph that has the clones. What is worth it is graph/recompute.h's business. Pure.
#pragma once

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace ebb::graph {

// Which nodes have a clone, and which values backward reads from clones.
struct Clones {
  explicit Clones(const Graph& graph)
      : place(graph.nodes.size(), kNone), from_clone(graph.values.size()) {}
  static constexpr int kNone = -1;
  std::vector<int> place;        // per node: the backward node before which its clone runs
  std::vector<bool> from_clone;  // per value; only values that a node with a clone makes
};

// The facts of a training graph that decide what can be cloned. The graph must outlive it.
class CloneRules {
 public:
  explicit CloneRules(const Graph& graph);

  // The node as it would run again, with the operands and results of the original; nullopt when it
  // must not, because it writes.
  static std::optional<Node> CloneOf(const Node& node);

  // Is the value read in backward, or by a clone?
  bool IsWanted(ValueId value, const Clones& clones) const;
  // The first backward node that reads it; the number of nodes when there is none.
  int FirstBackwardRead(ValueId value) const { return first_backward_read_[value.index()]; }
  // The last forward or loss node that reads or makes it.
  int LastForwardUse(ValueId value) const { return last_forward_use_[value.index()]; }

  // Has a clone make `value` for backward, with clones of what that reads in turn where it would be
  // gone by then. False when it cannot be; `clones` is then of no use any more.
  bool Add(ValueId value, Clones* clones) const;

 private:
  bool Take(ValueId value, int place, int depth, Clones* clones) const;
  bool Supply(ValueId input, NodeId reader, ValueId wanted, int depth, Clones* clones) const;
  bool IsStillRead(ValueId content, int from, const Clones& clones) const;
  bool IsWritten(ValueId resident, int after, int before) const;

  const Graph& graph_;
  std::vector<ValueId> content_;               // whose bytes a value shows: what a view views
  std::vector<std::vector<ValueId>> showing_;  // the other way round, itself included
  std::vector<int> first_backward_read_, last_backward_read_;
  std::vector<int> last_forward_use_;
  std::vector<std::vector<NodeId>> forward_readers_;
  std::vector<std::vector<int>> writes_;  // of residents: nodes
};

// `base` has the values of the graph and no nodes; `nodes` are the graph's. The new values are
// named after the cloned ones.
Graph WithClones(Graph base, const std::vector<Node>& nodes, const Clones& clones);

}  // namespace ebb::graph
