#include "runtime/micro_batches.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/micro_batch.h"
#include "graph/separable.h"
#include "runtime/initial_model.h"
#include "runtime/needs.h"

namespace ebb::runtime {
namespace {

absl::StatusOr<graph::Graph> InParts(const JobSpec& spec, const graph::Graph& forward,
                                     const graph::TrainingOptions& training) {
  const int parts = PartsOf(spec);
  JobSpec one = spec;
  one.batch_size = spec.batch_size / parts;
  one.model.weights = nullptr;  // values are those of the whole
  EBB_ASSIGN_OR_RETURN(const model::ImportedModel part, InitialModel(one, Values::kSkip, Bytes(0)));
  // Names the node for what it is; what is left is found by shapes.
  EBB_ASSIGN_OR_RETURN(graph::Graph made,
                       graph::BuildMicroBatchedGraph(part.graph, training,
                                                     {.batch = spec.batch_size, .parts = parts}));
  EBB_RETURN_IF_ERROR(graph::CheckSeparable(forward, part.graph, training, parts));
  return made;
}

}  // namespace

absl::Status CheckMicroBatches(const JobSpec& spec) {
  const int parts = spec.ladder.micro_batches;
  if (parts == 0 || parts == 1) return absl::OkStatus();
  if (parts < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        kMicroBatchesField, " is ", parts,
        "; give the number of equal parts of the batch, 1 for none, or 0 to leave it open"));
  }
  if (!BatchIsFree(spec)) {
    return absl::InvalidArgumentError(
        absl::StrCat(kMicroBatchesField, " is ", parts,
                     "; a serialised graph has its batch bound and cannot be cut: give the model "
                     "as onnx or zoo, or remove it"));
  }
  if (spec.batch_size % parts != 0) {
    return absl::InvalidArgumentError(absl::StrCat(kMicroBatchesField, " is ", parts,
                                                   ", which does not divide batch_size ",
                                                   spec.batch_size, " into equal parts"));
  }
  return absl::OkStatus();
}

absl::StatusOr<graph::Graph> TrainingGraphOf(const JobSpec& spec, const graph::Graph& forward,
                                             const graph::TrainingOptions& training) {
  if (PartsOf(spec) == 1) return graph::BuildTrainingGraph(forward, training);
  auto made = InParts(spec, forward, training);
  if (!made.ok()) return Annotate(made.status(), kMicroBatchesField);
  return made;
}

}  // namespace ebb::runtime
