// Files that clients have stored, by content: state_dir/objects/<sha256>, beside each a small .meta
// file. An object is written aside, synced and renamed, so that it is either whole or absent, also
// after a crash. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/units.h"

namespace ebb::daemon {

struct ObjectInfo {
  std::string sha256;  // 64 hexadecimal digits
  std::string kind;    // "data", "onnx", ...: for people
  std::string name;    // "" or letters, digits, '.', '_', '-'
  Bytes bytes;
  absl::Time stored;
};

struct StoreLimits {
  Bytes object;  // the largest single object
  Bytes total;   // all objects, those being written included
};

class Store {
 public:
  // Makes the directories (0700), removes what a crash left half-written and lists what there is.
  static absl::StatusOr<std::unique_ptr<Store>> Open(const std::string& state_dir,
                                                     const StoreLimits& limits);

  // An object being written. Dropping it without Commit() removes all traces. Not thread-safe.
  class Upload {
   public:
    ~Upload();
    Upload(const Upload&) = delete;
    Upload& operator=(const Upload&) = delete;

    // InvalidArgument when more than the announced bytes come.
    absl::Status Write(absl::string_view chunk);
    // InvalidArgument when bytes are missing or the hash is another one.
    absl::StatusOr<ObjectInfo> Commit();

   private:
    friend class Store;
    Upload(Store* store, ObjectInfo info, std::string path, int fd);
    Store* store_;
    ObjectInfo info_;
    std::string path_;  // of the file aside
    int fd_;
    int64_t written_ = 0;
    Sha256 hash_;
  };

  // ResourceExhausted says which limit is passed, and by how much. The upload must not outlive the
  // store.
  absl::StatusOr<std::unique_ptr<Upload>> Begin(ObjectInfo info);

  // "sha256:HEX" (a unique prefix of >= 6 digits) or "store:NAME[@sha256:HEX]" (the newest of that
  // name). NotFound lists nothing secret; InvalidArgument for a malformed or ambiguous reference.
  absl::StatusOr<ObjectInfo> Find(absl::string_view reference) const;
  std::vector<ObjectInfo> List() const;  // by time stored
  // The path of an object that Find() returned; it may be removed at any time, an open file stays.
  std::string PathOf(const ObjectInfo& info) const;
  absl::StatusOr<ObjectInfo> Remove(absl::string_view reference);
  Bytes used() const;

 private:
  Store(std::string dir, const StoreLimits& limits) : dir_(std::move(dir)), limits_(limits) {}
  absl::Status Load();
  absl::Status WriteMeta(const ObjectInfo& info) const;
  absl::StatusOr<ObjectInfo> Adopt(const std::string& path, ObjectInfo info);

  const std::string dir_;
  const StoreLimits limits_;
  mutable Mutex mu_;
  absl::flat_hash_map<std::string, ObjectInfo> objects_ ABSL_GUARDED_BY(mu_);
  Bytes used_ ABSL_GUARDED_BY(mu_);  // stored and announced
  int64_t next_upload_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace ebb::daemon
