// The models that measurements use, built in as forward graphs without weights: a job names one
// instead of a file, and a device that computes draws its parameters. fp32. Free functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "graph/graph.h"
#include "graph/training.h"

namespace ebb::model {

struct ZooEntry {
  absl::string_view name;
  absl::string_view about;  // one line for people
};

// All models, in the order of docs/model.md.
absl::Span<const ZooEntry> Zoo();

struct ZooModel {
  // The batch is bound. Parameters and statistics have the names of torchvision's (image models) or
  // of Hugging Face's (transformers) state dict.
  graph::Graph graph;
  // What measurements train it with: SGD with momentum (image models) or Adam (transformers).
  graph::LossSpec loss;
  graph::OptimizerSpec optimizer;
  int64_t tokens = 0;  // of one sample; 0: images
};

inline constexpr int64_t kMaxZooBatch = 1 << 16;

// NotFound lists the names; InvalidArgument: `batch` is not in [1, kMaxZooBatch].
absl::StatusOr<ZooModel> BuildZooModel(absl::string_view name, int64_t batch);

}  // namespace ebb::model
