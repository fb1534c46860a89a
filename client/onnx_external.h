// The files that an ONNX file keeps its weights in. Exporters write them beside it
// (model.onnx.data), and an ONNX file itself cannot have more than 2 GiB. Stateless.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ebb::client {

// Their locations as the file says them, relative to its directory; each once. Bytes that are no
// ONNX file name none: who reads the file will say so. InvalidArgument: a location that leads out
// of the directory.
absl::StatusOr<std::vector<std::string>> ExternalLocations(const std::string& path);

}  // namespace ebb::client
