#include "daemon/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::daemon {

absl::Status FileError(int error, absl::string_view what, absl::string_view path) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
      return absl::ResourceExhaustedError(message);
    case ENXIO:  // a socket
    case ELOOP:
    case ENAMETOOLONG:
      return absl::InvalidArgumentError(message);
    default:
      return absl::InternalError(message);
  }
}

absl::Status MakeDirectories(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string prefix = path.substr(0, slash);
    if (mkdir(prefix.c_str(), 0700) != 0 && errno != EEXIST) {
      const int error = errno;
      struct stat info;
      if (stat(prefix.c_str(), &info) != 0) return FileError(error, "cannot make", prefix);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return FileError(errno, "cannot make", path);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a directory"));
  }
  return absl::OkStatus();
}

absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return FileError(errno, "cannot write", path);
    }
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status SyncDirectory(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return FileError(errno, "cannot open", path);
  const int result = fsync(fd);
  const int error = errno;
  close(fd);
  return result == 0 ? absl::OkStatus() : FileError(error, "cannot sync", path);
}

absl::Status WriteFileAtomically(const std::string& path, absl::string_view bytes) {
  const std::string aside = absl::StrCat(path, ".new");
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return FileError(errno, "cannot create", aside);
  absl::Status status = WriteAll(fd, bytes, aside);
  if (status.ok() && fsync(fd) != 0) status = FileError(errno, "cannot sync", aside);
  close(fd);
  if (status.ok() && rename(aside.c_str(), path.c_str()) != 0) {
    status = FileError(errno, "cannot rename", aside);
  }
  if (!status.ok()) {
    unlink(aside.c_str());
    return status;
  }
  return SyncDirectory(path.substr(0, std::max<size_t>(path.rfind('/'), 1)));
}

absl::StatusOr<std::string> ReadDescriptor(int fd, absl::string_view path, Bytes limit) {
  struct stat info;
  if (fstat(fd, &info) != 0) return FileError(errno, "cannot read", path);
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  if (info.st_size > limit.count()) {
    return absl::ResourceExhaustedError(absl::StrCat(path, " has ",
                                                     FormatBytes(Bytes(info.st_size)), "; at most ",
                                                     FormatBytes(limit), " can be read"));
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = read(fd, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError(errno, "cannot read", path);
    if (count == 0) break;  // it was cut while we read
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

absl::StatusOr<std::string> ReadFile(const std::string& path, Bytes limit) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return FileError(errno, "cannot open", path);
  absl::Cleanup closer = [fd] { close(fd); };
  return ReadDescriptor(fd, path, limit);
}

}  // namespace ebb::daemon
