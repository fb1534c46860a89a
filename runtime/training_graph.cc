#include "runtime/training_graph.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/training.h"
#include "model/import.h"
#include "runtime/initial_model.h"
#include "runtime/needs.h"

namespace ebb::runtime {

absl::StatusOr<graph::Graph> TrainingGraphAt(JobSpec spec, int64_t batch) {
  if (spec.predict) {
    return absl::InvalidArgumentError("predict: a job that predicts trains nothing");
  }
  if (!BatchIsFree(spec) && batch != spec.batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.graph: a serialised graph has its batch bound, here to ",
                     spec.batch_size, " rows, and ", batch, " were needed; give model.onnx"));
  }
  EBB_RETURN_IF_ERROR(CheckWanted(spec));
  spec.batch_size = batch;
  EBB_ASSIGN_OR_RETURN(const model::ImportedModel imported,
                       InitialModel(spec, Values::kSkip, Bytes(0)));
  EBB_RETURN_IF_ERROR(CheckWanted(spec));
  return graph::BuildTrainingGraph(imported.graph, {.loss = spec.loss,
                                                    .metrics = spec.metrics,
                                                    .optimizer = spec.optimizer,
                                                    .groups = spec.groups,
                                                    .clip = spec.clip,
                                                    .ema_decay = spec.ema_decay});
}

}  // namespace ebb::runtime
