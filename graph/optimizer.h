// Which parameter is trained how, and the update nodes that do it.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::graph {

// What trains a parameter: that of the first group that matches its name, else the general one.
const OptimizerSpec& OptimizerOf(const TrainingOptions& options, absl::string_view param);

// InvalidArgument: a parameter that no node looks rows up in, but whose optimizer is sparse.
absl::Status CheckLookedUp(const Graph& forward, const TrainingOptions& options);

// Per value: the specification of its optimizer; null for frozen parameters and for all other
// values. Points into `options`. InvalidArgument: a value out of range, or a group without
// parameters.
absl::StatusOr<std::vector<const OptimizerSpec*>> AssignOptimizers(const Graph& graph,
                                                                   const TrainingOptions& options);

// Appends the updates to a graph that gets its backward nodes. The graph and the options outlive
// it.
class Updates {
 public:
  // Adds "ebb.hyper" if it is not there yet. InvalidArgument: as AssignOptimizers, or a clip or a
  // decay out of range.
  static absl::StatusOr<Updates> Create(Graph* graph, const TrainingOptions& options);

  // Per value that the graph has now: does it need a gradient?
  std::vector<bool> Trained() const;
  // The final gradient of a parameter: clipped, and updates it now, or in Finish() where other
  // gradients have a say. `mirror` is the node that completed it.
  absl::Status Add(ValueId param, ValueId gradient, NodeId mirror);
  // What has been put off. InvalidArgument: no parameter got a gradient.
  absl::Status Finish();

 private:
  struct Pending {
    ValueId param, gradient;
    NodeId mirror;
  };
  Updates(Graph* graph, const TrainingOptions& options)
      : graph_(graph), clip_(options.clip), ema_decay_(options.ema_decay) {}
  absl::Status Update(const Pending& update);
  absl::Status UpdateRows(const Pending& update);

  Graph* graph_;
  ClipSpec clip_;
  std::optional<double> ema_decay_;
  std::vector<const OptimizerSpec*> specs_;  // by value, of those that were there at first
  ValueId hyper_;
  bool any_ = false;
  std::vector<Pending> pending_;
};

}  // namespace ebb::graph
