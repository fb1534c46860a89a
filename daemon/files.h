// The few file-system calls that the store and the resolver share, with errors as absl::Status.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"

namespace ebb::daemon {

// "WHAT PATH: No such file or directory", with the code that fits `error` (an errno).
absl::Status FileError(int error, absl::string_view what, absl::string_view path);

// mkdir -p with mode 0700 for what is made. A leaf that exists must be a directory.
absl::Status MakeDirectories(const std::string& path);

// Writes all bytes to a descriptor.
absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path);

// Writes aside, syncs, renames; the directory is synced too.
absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes);
absl::Status SyncDirectory(const std::string& path);

// A whole regular file. `fd` is not closed.
absl::StatusOr<std::string> ReadDescriptor(int fd, absl::string_view path, Bytes limit);
absl::StatusOr<std::string> ReadFile(const std::string& path, Bytes limit);

}  // namespace ebb::daemon
