#include "daemon/socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "daemon/files.h"

namespace ebb::daemon {

absl::StatusOr<std::unique_ptr<FileLock>> FileLock::Acquire(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return FileError(errno, "cannot open", path);
  std::unique_ptr<FileLock> lock(new FileLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return FileError(errno, "cannot lock", path);
    const auto text = ReadDescriptor(fd, path, KiB(1));
    const std::string pid(text.ok() ? absl::StripAsciiWhitespace(*text) : absl::string_view("?"));
    return absl::AlreadyExistsError(absl::StrCat("another ebbd (process ", pid, ") holds ", path));
  }
  if (ftruncate(fd, 0) != 0) return FileError(errno, "cannot write", path);
  EBB_RETURN_IF_ERROR(WriteAll(fd, absl::StrCat(getpid(), "\n"), path));
  return lock;
}

FileLock::~FileLock() { close(fd_); }

namespace {

// Someone accepts connections at a socket's path, or would if there were not so many.
bool IsServed(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int result = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  const bool served = result == 0 || errno == EAGAIN;
  close(fd);
  return served;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SocketPath>> SocketPath::Claim(const std::string& path) {
  if (path.empty() || path[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("--socket: '", path, "' is not an absolute path"));
  }
  if (path.size() >= sizeof(sockaddr_un::sun_path)) {
    return absl::InvalidArgumentError(absl::StrCat("--socket: ", path, " has ", path.size(),
                                                   " bytes; a socket's path has at most ",
                                                   sizeof(sockaddr_un::sun_path) - 1));
  }
  const std::string dir = path.substr(0, std::max<size_t>(path.rfind('/'), 1));
  EBB_RETURN_IF_ERROR(MakeDirectories(dir));
  struct stat info;
  if (stat(dir.c_str(), &info) != 0) return FileError(errno, "cannot use", dir);
  if (info.st_uid != getuid() && info.st_uid != 0) {
    return absl::PermissionDeniedError(
        absl::StrCat(dir, " belongs to another user, who could replace the socket"));
  }
  EBB_ASSIGN_OR_RETURN(auto lock, FileLock::Acquire(absl::StrCat(path, ".lock")));
  if (lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode)) {
      return absl::FailedPreconditionError(absl::StrCat(path, " exists and is not a socket"));
    }
    // The lock file says who holds a socket; it may have been removed by hand.
    if (IsServed(path)) {
      return absl::AlreadyExistsError(absl::StrCat("another process serves ", path));
    }
    if (unlink(path.c_str()) != 0) return FileError(errno, "cannot replace the stale socket", path);
  }
  return std::unique_ptr<SocketPath>(new SocketPath(path, std::move(lock)));
}

SocketPath::~SocketPath() { unlink(path_.c_str()); }

}  // namespace ebb::daemon
