// The right to listen on a unix socket path: at most one daemon holds it, and a socket that a dead
// daemon left behind is replaced.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace ebb::daemon {

// An exclusive lock on a file, released with the process at the latest.
class FileLock {
 public:
  // AlreadyExists names the process that holds it.
  static absl::StatusOr<std::unique_ptr<FileLock>> Acquire(const std::string& path);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  explicit FileLock(int fd) : fd_(fd) {}
  const int fd_;
};

class SocketPath {
 public:
  // Makes the directory (0700) and removes a stale socket. AlreadyExists: another daemon serves it.
  static absl::StatusOr<std::unique_ptr<SocketPath>> Claim(const std::string& path);
  ~SocketPath();  // removes the socket
  SocketPath(const SocketPath&) = delete;
  SocketPath& operator=(const SocketPath&) = delete;

 private:
  SocketPath(std::string path, std::unique_ptr<FileLock> lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;
  const std::unique_ptr<FileLock> lock_;
};

}  // namespace ebb::daemon
