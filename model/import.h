// ONNX -> graph: opset normalised, batch bound, shape arithmetic folded on the host, weights apart.
// Free functions; hostile bytes give an error, never a crash.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::model {

// Files beside an ONNX file that hold its weights: location, as the file says it, -> bytes.
using ExternalFiles = std::map<std::string, std::shared_ptr<const std::string>>;

enum class BatchNormMode { kTrain, kFrozen, kAsExported };

struct ImportOptions {
  // Bound to dynamic axis 0 (a dim_param) of every graph input; 0: every shape must be fixed in the
  // file, and is taken as it is.
  int64_t batch_size = 1;
  BatchNormMode batch_norm = BatchNormMode::kTrain;
  double dropout = -1;         // >= 0: the ratio of every Dropout node; -1: as exported
  bool untie_uniform = false;  // split an all-equal 1-D initializer that several nodes share
  bool keep_tied = false;      // or leave it shared: the model itself shares it
  // External data: those given, else files in this directory ("" = none).
  ExternalFiles external_data;
  std::string external_data_dir;
  // The most that nodes evaluated while importing may make (weights made by ConstantOfShape,
  // masks).
  int64_t max_constant_bytes = int64_t{2} << 30;
};

struct ImportedModel {
  graph::Graph graph;        // forward; inputs kInput, weights kParam, statistics kBuffer
  graph::TensorMap weights;  // initial values of kParam and kBuffer, by name
  std::vector<std::string> warnings;
  int opset = 0;
};

// InvalidArgument: not an ONNX model, or inconsistent. Unimplemented: an op, opset or feature that
// is not supported: names the node, op and opset and says what to do.
absl::StatusOr<ImportedModel> ImportOnnx(absl::string_view bytes, const ImportOptions& options);

// The user's own ONNX file with its initializers replaced by `weights` (names as imported).
// Constants that importing made trainable, and initializers that it split, become initializers of
// their own. InvalidArgument names a weight that the file does not have, or has with another type.
absl::StatusOr<std::string> ExportOnnx(absl::string_view original, const graph::TensorMap& weights);

}  // namespace ebb::model
