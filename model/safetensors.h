// The safetensors file format (header of JSON, then raw little-endian data): weights in and out.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/graph.h"

namespace ebb::model {

// Tensors in name order; `metadata` goes into "__metadata__".
std::string WriteSafetensors(const graph::TensorMap& tensors,
                             const std::map<std::string, std::string>& metadata = {});
// InvalidArgument says which tensor or offset is wrong. Accepts F32, F64, I32, I64, U8, BOOL.
absl::StatusOr<graph::TensorMap> ReadSafetensors(absl::string_view bytes);

}  // namespace ebb::model
