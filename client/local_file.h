// Files on the client's own machine: read to be stored, written by `ebb get`. One thread an object.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::client {

// "WHAT PATH: No such file or directory". NotFound; Internal when the machine is at fault (a full
// disk); InvalidArgument when the path is.
absl::Status LocalFileError(int error, absl::string_view what, absl::string_view path);

// A descriptor for reading, which the caller closes. Pipes, devices and directories are
// InvalidArgument, and no open blocks.
absl::StatusOr<int> OpenRegularFile(const std::string& path);

// All bytes of a regular file.
absl::StatusOr<std::string> ReadRegularFile(const std::string& path);

// A file that takes its name when it is whole: it is written beside it and renamed by Commit(). A
// path that is a pipe or a device is written to as it is.
class OutputFile {
 public:
  static absl::StatusOr<std::unique_ptr<OutputFile>> Create(const std::string& path);
  ~OutputFile();  // without Commit() nothing is left
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  absl::Status Write(absl::string_view bytes);
  absl::Status Commit();

 private:
  OutputFile(int fd, std::string path, std::string aside)
      : fd_(fd), path_(std::move(path)), aside_(std::move(aside)) {}

  int fd_;
  const std::string path_;
  std::string aside_;  // "" when it is written in place, or is done
};

}  // namespace ebb::client
