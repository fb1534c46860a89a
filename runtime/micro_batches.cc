#include "runtime/micro_batches.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "graph/micro_batch.h"
#include "graph/separable.h"
#include "runtime/initial_model.h"
#include "runtime/needs.h"

namespace ebb::runtime {
namespace {

graph::MicroBatchOptions Options(const JobSpec& spec) {
  return {.batch = spec.StepRows(),
          .parts = PartsOf(spec) * spec.accumulate,
          .accumulate = spec.accumulate};
}

absl::StatusOr<graph::Graph> InParts(const JobSpec& spec, const graph::Graph& forward,
                                     const graph::TrainingOptions& training) {
  const int parts = PartsOf(spec);
  JobSpec one = spec;
  one.batch_size = spec.batch_size / parts;
  one.model.weights = nullptr;  // values are those of the whole
  EBB_ASSIGN_OR_RETURN(const model::ImportedModel part, InitialModel(one, Values::kSkip, Bytes(0)));
  // Names the node for what it is; what is left is found by shapes.
  EBB_ASSIGN_OR_RETURN(graph::Graph made,
                       graph::BuildMicroBatchedGraph(part.graph, training, Options(spec)));
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

absl::Status CheckAccumulate(const JobSpec& spec) {
  constexpr int64_t kMostRows = int64_t{1} << 31;
  if (spec.accumulate < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "accumulate is ", spec.accumulate, "; give the number of batches that make one step"));
  }
  if (spec.batch_size <= kMostRows / spec.accumulate) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("accumulate: ", spec.accumulate, " batches of ",
                                                 spec.batch_size,
                                                 " rows make a step of more than 2^31 rows"));
}

absl::StatusOr<graph::Graph> TrainingGraphOf(const JobSpec& spec, const graph::Graph& forward,
                                             const graph::TrainingOptions& training) {
  if (PartsOf(spec) == 1) {
    if (spec.accumulate == 1) return graph::BuildTrainingGraph(forward, training);
    auto made = graph::BuildMicroBatchedGraph(forward, training, Options(spec));
    if (!made.ok()) return Annotate(made.status(), "accumulate");
    return made;
  }
  auto made = InParts(spec, forward, training);
  if (!made.ok()) return Annotate(made.status(), kMicroBatchesField);
  return made;
}

}  // namespace ebb::runtime
