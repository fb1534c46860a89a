// A job whose step is no single batch: it trains in micro-batches, from the model at a part of the
// batch, or accumulates the gradients of several batches.
// Free functions without state.
#pragma once

#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/training.h"
#include "runtime/job.h"

namespace ebb::runtime {

inline constexpr char kMicroBatchesField[] = "resources.ladder.micro_batches";

struct MicroBatchChoice {
  int parts = 1;
  // Where 1 does not fit and no other number helps: why. Empty where micro-batches are no question,
  // because the model binds its batch.
  std::string why_not;
  bool separable = false;  // the model could be trained in parts
};

// How many parts a batch has. Before the engine has chosen (micro_batch_choice.h), 1.
inline int PartsOf(const JobSpec& spec) { return std::max(1, spec.ladder.micro_batches); }

// InvalidArgument: not a number of equal parts of the batch.
absl::Status CheckMicroBatches(const JobSpec& spec);
// InvalidArgument: no number of batches, or a step of too many rows.
absl::Status CheckAccumulate(const JobSpec& spec);

// The training graph of the job, whose model at the whole batch is `forward`; over several batches
// and in micro-batches where the spec says so. Unimplemented names the node for which that cannot
// be.
absl::StatusOr<graph::Graph> TrainingGraphOf(const JobSpec& spec, const graph::Graph& forward,
                                             const graph::TrainingOptions& training);

}  // namespace ebb::runtime
