// A folder of images on the daemon's host as a data set. Stateless.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/host_roots.h"
#include "data/images.h"

namespace ebb::daemon {

// Lists the folder and reads every header. Files are read again when a batch needs them, each time
// only if they lie inside a root and have the size and the time of change that they had at first.
// `reserve` is asked for the memory of the list. Errors name files by their path in the folder.
absl::StatusOr<std::shared_ptr<const data::ImageSet>> OpenImageFolder(
    const HostRoots& roots, const std::string& path,
    const std::function<absl::Status(Bytes)>& reserve);

}  // namespace ebb::daemon
