// What a rank of a strategy keeps in its GPU's memory. Plain data, pure functions.
#pragma once

#include <optional>
#include <string>

#include "absl/types/span.h"
#include "perfmodel/data_parallel.h"
#include "perfmodel/pipeline.h"
#include "perfmodel/training_step.h"

namespace ebb::perfmodel {

struct MemoryFit {
  double params = 0;
  double gradients = 0;    // that wait for other micro-batches or ranks
  double optimizer = 0;    // its states
  double activations = 0;  // kept for backward, of all micro-batches in flight
  double working = 0;      // the most that a step needs for a moment
  double buckets = 0;      // what collectives send and receive
  double fixed = 0;        // constants, statistics, the batch
  double total() const {
    return params + gradients + optimizer + activations + working + buckets + fixed;
  }
  bool operator==(const MemoryFit&) const = default;
};

// Of the stages (`parts`, contiguous units of `step`) that a pipeline rank has. A step whose
// gradients are used at once (one micro-batch, one data rank) keeps none. What a driver or a
// library takes for itself is not in it.
MemoryFit FitOf(const TrainingStep& step, absl::Span<const StagePart> parts,
                absl::Span<const PipelineSlot> order, const DataParallel& data,
                int64_t micro_batches);

// "fits in 80.0 GiB, 12.3 GiB to spare", "needs 91.2 GiB, 11.2 GiB more than there is".
std::string FitText(const MemoryFit& fit, double memory_bytes);

}  // namespace ebb::perfmodel
