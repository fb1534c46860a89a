// Archives of tar(1), in memory. Free functions without state.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::bench {

struct TarFile {
  std::string name;        // as in the archive
  absl::string_view text;  // within the archive
};

// The plain files of a ustar, GNU or pax archive, sorted by name; what macOS adds ("._NAME") and
// names in extended headers are left out. InvalidArgument: damaged.
absl::StatusOr<std::vector<TarFile>> FilesOfTar(absl::string_view archive);

}  // namespace ebb::bench
