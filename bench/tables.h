// Files of measured figures. Free functions without state.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace ebb::bench {

// A file's text, unpacked where it is gzip. NotFound: there is none; InvalidArgument: it cannot be
// read, is damaged or above 256 MiB.
absl::StatusOr<std::string> ReadTable(const std::string& path);

}  // namespace ebb::bench
