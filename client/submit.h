// From a job file on disk to a job: reads it, stores the files that it names, submits.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/client.h"
#include "ebb/v1/job.pb.h"

namespace ebb::client {

// Reads a YAML or JSON job file and applies "key.path=value" overrides in order. A job without a
// name gets the file's. InvalidArgument with FILE:LINE:COLUMN.
absl::StatusOr<v1::JobSpec> ReadSpecFile(const std::string& path,
                                         const std::vector<std::string>& overrides);

// Stores the files of specs and replaces their paths by content references. A reference with a
// scheme (sha256:, store:, host:) stays; a path is relative to `directory`, that of the job file.
class Uploader {
 public:
  explicit Uploader(Client* client) : client_(client) {}
  absl::Status Upload(const std::string& directory, v1::JobSpec* spec);
  // The model alone, which is all that an estimate reads.
  absl::Status UploadModel(const std::string& directory, v1::JobSpec* spec);
  // A daemon's message with the paths of the files that it calls by their content.
  std::string WithPaths(absl::string_view message) const;
  // `reference` is called `name` in such messages.
  void Call(const std::string& reference, const std::string& name) { done_[name] = reference; }

 private:
  // The file, and those that it names as the places of its weights.
  absl::Status UploadOnnx(const std::string& directory, v1::Model* model);
  absl::Status UploadOne(const std::string& directory, absl::string_view field, v1::ObjectKind kind,
                         std::string* reference);
  absl::Status UploadImages(const std::string& directory, absl::string_view field,
                            std::string* reference);
  Client* const client_;
  std::map<std::string, std::string> done_;  // path -> reference: hashed once
};

// All of it for one file.
absl::StatusOr<v1::Job> SubmitFile(Client* client, const std::string& path,
                                   const std::vector<std::string>& overrides = {},
                                   const std::string& idempotency_key = "");

// The directory part of a path, "." if it has none.
std::string DirectoryOf(const std::string& path);

}  // namespace ebb::client
