// The forward graph of a job with its initial values: imported, loaded, drawn anew, and checked.
// Free functions without state.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "graph/graph.h"
#include "model/import.h"
#include "runtime/job.h"

namespace ebb::runtime {

// Whether parameters that `reinit` names are drawn: not where only sizes matter.
enum class Values { kMake, kSkip };

// What the job's `model` says. ResourceExhausted when the parameters alone exceed `memory` (0: no
// limit), before a value is drawn for them.
absl::StatusOr<model::ImportedModel> InitialModel(const JobSpec& spec, Values values, Bytes memory);

// Every parameter and buffer of the training graph has a value of its type; what is trained and
// its statistics are finite.
absl::Status CheckInitialValues(const graph::Graph& graph, const graph::TensorMap& weights);

}  // namespace ebb::runtime
