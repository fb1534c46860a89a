// The directories of the daemon's host that jobs may read (--data_root). Immutable; thread-safe.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::daemon {

class HostRoots {
 public:
  explicit HostRoots(const std::vector<std::string>& roots);  // none = no host paths

  // A descriptor for reading of a file or directory that lies inside a root after all symbolic
  // links are resolved; the caller closes it. PermissionDenied otherwise.
  absl::StatusOr<int> Open(const std::string& path) const;

 private:
  bool Allows(absl::string_view canonical) const;

  std::vector<std::string> roots_;  // canonical, without a trailing '/'
};

}  // namespace ebb::daemon
