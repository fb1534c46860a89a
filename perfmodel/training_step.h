// A rank's training step as strategies cut it up: what each kernel has to do, which parameters it
// makes gradients of, what it keeps. From a training graph, or made by hand. Plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "perfmodel/work.h"

namespace ebb::perfmodel {

struct StepOp {
  std::string name;
  graph::Phase phase = graph::Phase::kForward;  // the loss is forward
  int unit = 0;    // forward: its place in the model; backward: that of the op it mirrors
  int param = -1;  // update: the parameter; -1: none, or all of them
  Work work;
  double reduce_bytes = 0;  // all-reduced between the tensor ranks when it has ended
};

// A parameter as one rank of its tensor group holds it.
struct StepParam {
  std::string name;
  double bytes = 0;
  double state_bytes = 0;  // of the optimizer
  int ready = -1;          // the op with which its gradient is final; -1: not trained
  int unit = 0;            // the first that reads it
  int last_unit = 0;       // the last: another where layers share it
};

struct TrainingStep {
  int64_t batch = 1;
  int units = 0;
  std::vector<StepOp> ops;  // forward, then backward, then updates
  std::vector<StepParam> params;
  // By unit: bytes that it keeps for backward, and that cross a cut right before it.
  std::vector<double> saved_bytes, crossing_bytes;
  double working_bytes = 0;  // the most that lives at once beside what is kept
  double fixed_bytes = 0;    // constants, statistics
  double input_bytes = 0;    // of the batch
};

// InvalidArgument says what contradicts itself.
absl::Status Verify(const TrainingStep& step);

// Of a graph of BuildTrainingGraph at `batch` samples, as one of `tensor` ranks does it
// (perfmodel/tensor_parallel.h). Unimplemented names an op that no family covers.
absl::StatusOr<TrainingStep> StepOf(const graph::Graph& training, int64_t batch, int64_t tensor);

// A rank's step at a batch: graphs are bound anew, so that statistics of the batch, losses and
// optimizers are what they are at that batch, and kernels' shapes are real ones.
using StepMaker = std::function<absl::StatusOr<TrainingStep>(int64_t batch, int64_t tensor)>;
using GraphMaker = std::function<absl::StatusOr<graph::Graph>(int64_t batch)>;
StepMaker StepsOf(GraphMaker graphs);

}  // namespace ebb::perfmodel
