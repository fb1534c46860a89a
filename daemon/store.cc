#include "daemon/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status.h"
#include "daemon/files.h"

namespace ebb::daemon {
namespace {

bool IsHex(absl::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
  });
}

bool IsName(absl::string_view name) {
  return name.size() <= 128 && std::all_of(name.begin(), name.end(), [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' ||
                  c == '-';
         });
}

absl::StatusOr<std::vector<std::string>> ListDirectory(const std::string& path) {
  DIR* dir = opendir(path.c_str());
  if (dir == nullptr) return FileError(errno, "cannot list", path);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir)) {
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  closedir(dir);
  return names;
}

// A state directory that is gone or closed to us is no mistake of the client's.
absl::Status OurFault(const absl::Status& status) {
  if (status.ok()) return status;
  const bool full = status.code() == absl::StatusCode::kResourceExhausted;
  return absl::Status(full ? status.code() : absl::StatusCode::kInternal,
                      absl::StrCat("the daemon's state directory: ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const std::string& state_dir,
                                                   const StoreLimits& limits) {
  std::unique_ptr<Store> store(new Store(state_dir, limits));
  EBB_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(state_dir, "/objects")));
  EBB_RETURN_IF_ERROR(MakeDirectories(absl::StrCat(state_dir, "/incoming")));
  EBB_RETURN_IF_ERROR(store->Load());
  return store;
}

absl::Status Store::Load() {
  const std::string incoming = absl::StrCat(dir_, "/incoming/");
  EBB_ASSIGN_OR_RETURN(const auto partial, ListDirectory(incoming));
  for (const std::string& name : partial) unlink((incoming + name).c_str());

  const std::string objects = absl::StrCat(dir_, "/objects/");
  EBB_ASSIGN_OR_RETURN(const auto names, ListDirectory(objects));
  MutexLock lock(&mu_);
  for (const std::string& name : names) {
    struct stat file;
    if (name.size() != 64 || !IsHex(name) || stat((objects + name).c_str(), &file) != 0) continue;
    ObjectInfo info{name, "", "", Bytes(file.st_size), absl::FromTimeT(file.st_mtime)};
    // A crash can part an object from its meta file; the object alone is still good.
    if (auto meta = ReadFile(objects + name + ".meta", KiB(4)); meta.ok()) {
      const std::vector<std::string> lines = absl::StrSplit(*meta, '\n');
      int64_t micros = 0;
      if (lines.size() >= 3 && IsName(lines[0]) && IsName(lines[1]) &&
          absl::SimpleAtoi(lines[2], &micros)) {
        info.kind = lines[0];
        info.name = lines[1];
        info.stored = absl::FromUnixMicros(micros);
      }
    }
    used_ += info.bytes;
    objects_.emplace(name, std::move(info));
  }
  for (const std::string& name : names) {
    absl::string_view object = name;
    absl::ConsumeSuffix(&object, ".new");
    const bool is_meta = absl::ConsumeSuffix(&object, ".meta");
    if (absl::EndsWith(name, ".new") || (is_meta && !objects_.contains(std::string(object)))) {
      unlink((objects + name).c_str());
    }
  }
  return absl::OkStatus();
}

absl::Status Store::WriteMeta(const ObjectInfo& info) const {
  return WriteFileAtomically(
      absl::StrCat(PathOf(info), ".meta"),
      absl::StrCat(info.kind, "\n", info.name, "\n", absl::ToUnixMicros(info.stored), "\n"));
}

absl::StatusOr<std::unique_ptr<Store::Upload>> Store::Begin(ObjectInfo info) {
  if (info.sha256.size() != 64 || !IsHex(info.sha256)) {
    return absl::InvalidArgumentError("sha256 must be 64 lower-case hexadecimal digits");
  }
  if (!IsName(info.name)) {
    return absl::InvalidArgumentError(
        "a stored object's name has at most 128 letters, digits, '.', '_' and '-'");
  }
  if (info.bytes < Bytes(0)) return absl::InvalidArgumentError("bytes must not be negative");
  if (info.bytes > limits_.object) {
    return absl::ResourceExhaustedError(absl::StrCat("the upload has ", FormatBytes(info.bytes),
                                                     "; the limit is ", FormatBytes(limits_.object),
                                                     " (ebbd --upload_limit)"));
  }
  std::string path;
  {
    MutexLock lock(&mu_);
    if (used_ + info.bytes > limits_.total) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the store holds ", FormatBytes(used_), " of ", FormatBytes(limits_.total), "; ",
          FormatBytes(info.bytes), " more do not fit: remove objects or raise ebbd --store_limit"));
    }
    used_ += info.bytes;
    path = absl::StrCat(dir_, "/incoming/", getpid(), "-", next_upload_++);
  }
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  const int error = errno;
  info.stored = absl::Now();
  std::unique_ptr<Upload> upload(new Upload(this, std::move(info), path, fd));
  // The upload gives its bytes back.
  if (fd < 0) return OurFault(FileError(error, "cannot create", path));
  return upload;
}

Store::Upload::Upload(Store* store, ObjectInfo info, std::string path, int fd)
    : store_(store), info_(std::move(info)), path_(std::move(path)), fd_(fd) {}

Store::Upload::~Upload() {
  if (fd_ >= 0) close(fd_);
  if (path_.empty()) return;
  unlink(path_.c_str());
  MutexLock lock(&store_->mu_);
  store_->used_ -= info_.bytes;
}

absl::Status Store::Upload::Write(absl::string_view chunk) {
  if (written_ + static_cast<int64_t>(chunk.size()) > info_.bytes.count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("more than the announced ", info_.bytes.count(), " bytes came"));
  }
  EBB_RETURN_IF_ERROR(OurFault(WriteAll(fd_, chunk, path_)));
  hash_.Update(chunk);
  written_ += static_cast<int64_t>(chunk.size());
  return absl::OkStatus();
}

absl::StatusOr<ObjectInfo> Store::Upload::Commit() {
  if (written_ != info_.bytes.count()) {
    return absl::InvalidArgumentError(absl::StrCat("the upload ended after ", written_, " of ",
                                                   info_.bytes.count(), " bytes; nothing is kept"));
  }
  if (const std::string digest = hash_.HexDigest(); digest != info_.sha256) {
    return absl::InvalidArgumentError(absl::StrCat("the bytes have sha256 ", digest,
                                                   ", not the announced ", info_.sha256,
                                                   "; nothing is kept"));
  }
  if (fsync(fd_) != 0) return OurFault(FileError(errno, "cannot sync", path_));
  EBB_ASSIGN_OR_RETURN(ObjectInfo stored, store_->Adopt(path_, info_));
  path_.clear();  // it is the store's now
  return stored;
}

absl::StatusOr<ObjectInfo> Store::Adopt(const std::string& path, ObjectInfo info) {
  MutexLock lock(&mu_);
  const auto it = objects_.find(info.sha256);
  const bool known = it != objects_.end();
  if (known && info.name.empty()) info.name = it->second.name;
  if (known && info.kind.empty()) info.kind = it->second.kind;
  EBB_RETURN_IF_ERROR(OurFault(WriteMeta(info)));
  if (rename(path.c_str(), PathOf(info).c_str()) != 0) {
    return OurFault(FileError(errno, "cannot rename", path));
  }
  EBB_RETURN_IF_ERROR(OurFault(SyncDirectory(absl::StrCat(dir_, "/objects"))));
  if (known) used_ -= it->second.bytes;  // as they were when they were stored before
  objects_[info.sha256] = info;
  return info;
}

absl::StatusOr<ObjectInfo> Store::Find(absl::string_view reference) const {
  absl::string_view rest = reference;
  std::string name;
  absl::string_view hex;
  if (absl::ConsumePrefix(&rest, "store:")) {
    const std::vector<absl::string_view> parts = absl::StrSplit(rest, absl::MaxSplits('@', 1));
    name = std::string(parts[0]);
    if (parts.size() > 1 && !absl::StartsWith(parts[1], "sha256:")) name.clear();
    if (parts.size() > 1) hex = absl::StripPrefix(parts[1], "sha256:");
    if (name.empty() || !IsName(name) || !IsHex(hex) || hex.size() > 64) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", reference, "' is not of the form store:NAME or store:NAME@sha256:HEX"));
    }
  } else if (absl::ConsumePrefix(&rest, "sha256:")) {
    hex = rest;
    if (hex.size() < 6 || hex.size() > 64 || !IsHex(hex)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'", reference, "' is not sha256: and 6 to 64 lower-case hexadecimal digits"));
    }
  } else {
    return absl::InvalidArgumentError(
        absl::StrCat("'", reference, "' is not a sha256: or store: reference"));
  }
  MutexLock lock(&mu_);
  const ObjectInfo* found = nullptr;
  for (const auto& [sha256, info] : objects_) {
    if (!absl::StartsWith(sha256, hex) || (!name.empty() && info.name != name)) continue;
    if (found != nullptr && name.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", reference, "' fits more than one stored object; give more digits"));
    }
    if (found == nullptr || info.stored > found->stored) found = &info;
  }
  if (found == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("no stored object is '", reference, "'; `ebb data ls` lists them"));
  }
  return *found;
}

std::vector<ObjectInfo> Store::List() const {
  std::vector<ObjectInfo> all;
  {
    MutexLock lock(&mu_);
    for (const auto& [sha256, info] : objects_) all.push_back(info);
  }
  std::sort(all.begin(), all.end(), [](const ObjectInfo& a, const ObjectInfo& b) {
    return std::tie(a.stored, a.sha256) < std::tie(b.stored, b.sha256);
  });
  return all;
}

std::string Store::PathOf(const ObjectInfo& info) const {
  return absl::StrCat(dir_, "/objects/", info.sha256);
}

absl::StatusOr<ObjectInfo> Store::Remove(absl::string_view reference) {
  EBB_ASSIGN_OR_RETURN(const ObjectInfo info, Find(reference));
  MutexLock lock(&mu_);
  if (objects_.erase(info.sha256) == 0) {
    return absl::NotFoundError(absl::StrCat("'", reference, "' has just been removed"));
  }
  used_ -= info.bytes;
  if (unlink(PathOf(info).c_str()) != 0 && errno != ENOENT) {
    Log(LogLevel::kWarning, "store: cannot remove %s", info.sha256);
  }
  unlink(absl::StrCat(PathOf(info), ".meta").c_str());
  return info;
}

Bytes Store::used() const {
  MutexLock lock(&mu_);
  return used_;
}

}  // namespace ebb::daemon
