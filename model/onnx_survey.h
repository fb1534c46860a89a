// What an ONNX file says about itself before anything is converted: a checked order of its live
// nodes, and which initializers are weights.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/onnx_proto.h"

namespace ebb::model {

// Parses and checks what does not depend on options: sizes, opset, one graph, no functions.
absl::StatusOr<onnx::ModelProto> ParseModel(absl::string_view bytes);
// The version of the standard domain, 7 to 23.
absl::StatusOr<int> StandardOpset(const onnx::ModelProto& model);

struct Survey {
  using Use = std::pair<int, int>;  // node index, input index

  std::vector<int> order;  // indices of the nodes that the outputs need, producers first
  absl::flat_hash_map<std::string, int> producer;     // value name -> node index
  absl::flat_hash_map<std::string, int> initializer;  // name -> index

  enum class Kind { kParam, kBuffer };
  struct Weight {
    Kind kind = Kind::kParam;
    // Where it is trained, or is a statistic, through any Identity nodes; in file order.
    std::vector<Use> uses;
  };
  // Float initializers that the outputs depend on differentiably, or that are statistics of a
  // BatchNormalization. All other initializers are constants.
  absl::btree_map<std::string, Weight> weights;
};

// InvalidArgument: cycles, duplicate names, values that nothing makes, wrong uses.
absl::StatusOr<Survey> SurveyGraph(const onnx::GraphProto& graph, int opset);

// The imported name of use `index` of a weight that is split: "w", "w@2", "w@3".
std::string SplitName(absl::string_view weight, size_t index);

}  // namespace ebb::model
