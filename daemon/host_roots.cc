#include "daemon/host_roots.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/files.h"

namespace ebb::daemon {
namespace {

// Empty when it cannot be resolved.
std::string Canonical(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return "";
  std::string result = resolved;
  free(resolved);
  return result;
}

bool IsInside(absl::string_view path, absl::string_view root) {
  if (root == "/") return absl::StartsWith(path, "/");
  return absl::StartsWith(path, root) && path.size() > root.size() && path[root.size()] == '/';
}

}  // namespace

HostRoots::HostRoots(const std::vector<std::string>& roots) {
  for (const std::string& root : roots) {
    if (std::string path = Canonical(root); !path.empty()) roots_.push_back(std::move(path));
  }
}

bool HostRoots::Allows(absl::string_view canonical) const {
  return std::any_of(roots_.begin(), roots_.end(),
                     [&](const std::string& root) { return IsInside(canonical, root); });
}

absl::StatusOr<int> HostRoots::Open(const std::string& path) const {
  if (roots_.empty()) {
    return absl::PermissionDeniedError(
        absl::StrCat(path,
                     ": files on the daemon's host are not allowed; store the file (`ebb data "
                     "put`) or start ebbd with --data_root"));
  }
  const absl::Status outside = absl::PermissionDeniedError(absl::StrCat(
      path, " does not lead to a file inside the directories that ebbd's --data_root allows"));
  if (path.find('\0') != std::string::npos) return outside;
  const std::string canonical = Canonical(path);
  if (canonical.empty() || !Allows(canonical)) return outside;
  const int fd = open(canonical.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0) return FileError(errno, "cannot open", path);
  // What was opened, whatever a rename did meanwhile.
  char opened[PATH_MAX];
  const ssize_t size = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), opened, sizeof(opened));
  if (size > 0 && Allows(absl::string_view(opened, static_cast<size_t>(size)))) return fd;
  close(fd);
  return outside;
}

}  // namespace ebb::daemon
