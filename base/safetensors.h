// The container of safetensors files (https://github.com/huggingface/safetensors, "Format"): which
// tensor lies where. What elements mean is for those who read weights (model) or rows (data).
// Stateless.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as the header spells it: "F32"
  std::vector<int64_t> shape;
  uint64_t begin = 0;         // of the payload, in the data behind the header
  absl::string_view payload;  // a part of the file; not compared with dtype and shape
};

// A header of JSON follows the length of a header that fits the file.
bool IsSafetensors(absl::string_view bytes);

// The tensors in the order in which they lie in the file; their payloads follow one another without
// gaps to its end. InvalidArgument says which tensor or offset is wrong.
absl::StatusOr<std::vector<SafetensorsEntry>> OpenSafetensors(absl::string_view bytes);

}  // namespace ebb
