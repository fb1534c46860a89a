#include "client/local_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::client {

absl::Status LocalFileError(int error, absl::string_view what, absl::string_view path) {
  const std::string message = absl::StrCat(what, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
    case EIO:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::InternalError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

absl::StatusOr<int> OpenRegularFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return LocalFileError(errno, "cannot open", path);
  struct stat info;
  const int result = fstat(fd, &info);
  const int error = errno;
  if (result == 0 && S_ISREG(info.st_mode)) return fd;
  close(fd);
  if (result != 0) return LocalFileError(error, "cannot read", path);
  return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
}

absl::StatusOr<std::string> ReadRegularFile(const std::string& path) {
  EBB_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path));
  absl::Cleanup closer = [fd] { close(fd); };
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = read(fd, buffer, sizeof(buffer));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LocalFileError(errno, "cannot read", path);
    if (count == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(count));
  }
}

absl::StatusOr<std::unique_ptr<OutputFile>> OutputFile::Create(const std::string& path) {
  if (path.empty()) return absl::InvalidArgumentError("the file to write has no name");
  struct stat info;
  const bool exists = stat(path.c_str(), &info) == 0;
  if (exists && S_ISDIR(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot write ", path, ": it is a directory; name a file in it"));
  }
  if (exists && !S_ISREG(info.st_mode)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return LocalFileError(errno, "cannot write", path);
    return std::unique_ptr<OutputFile>(new OutputFile(fd, path, ""));
  }
  // A link keeps its place: what it leads to is replaced.
  std::string target = path;
  if (char* resolved = exists ? realpath(path.c_str(), nullptr) : nullptr; resolved != nullptr) {
    target = resolved;
    std::free(resolved);
  }
  // Two processes that write one file do not meet.
  const std::string aside = absl::StrCat(target, ".", getpid(), ".part");
  const int fd = open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return LocalFileError(errno, "cannot write", aside);
  return std::unique_ptr<OutputFile>(new OutputFile(fd, target, aside));
}

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (!aside_.empty()) unlink(aside_.c_str());
}

absl::Status OutputFile::Write(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return LocalFileError(errno, "cannot write", aside_.empty() ? path_ : aside_);
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

absl::Status OutputFile::Commit() {
  const int closed = close(fd_);
  fd_ = -1;
  if (closed != 0) return LocalFileError(errno, "cannot write", path_);
  if (aside_.empty()) return absl::OkStatus();
  if (std::rename(aside_.c_str(), path_.c_str()) != 0) {
    return LocalFileError(errno, "cannot write", path_);
  }
  aside_.clear();
  return absl::OkStatus();
}

}  // namespace ebb::client
