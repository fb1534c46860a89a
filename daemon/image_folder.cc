#include "daemon/image_folder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "base/status.h"
#include "daemon/files.h"

namespace ebb::daemon {
namespace {

using Reserve = std::function<absl::Status(Bytes)>;

// Symbolic links may lead in circles.
constexpr int kDeepest = 16;  // directories in one another
constexpr int kMostDirectories = 1 << 17;

class FolderFiles : public data::ImageFiles {
 public:
  FolderFiles(HostRoots roots, std::string folder)
      : roots_(std::move(roots)), folder_(std::move(folder)) {}

  absl::StatusOr<std::string> Read(const std::string& path, int64_t most) const override {
    EBB_ASSIGN_OR_RETURN(const int fd, roots_.Open(absl::StrCat(folder_, "/", path)));
    absl::Cleanup closer = [fd] { close(fd); };
    struct stat info;
    if (fstat(fd, &info) != 0) return FileError(errno, "cannot read", path);
    if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError("it is no regular file");
    if (info.st_size > data::kMaxImageBytes) {
      return absl::InvalidArgumentError(absl::StrCat("it has ", info.st_size,
                                                     " bytes, more than the limit of ",
                                                     FormatBytes(Bytes(data::kMaxImageBytes))));
    }
    std::string bytes(static_cast<size_t>(std::min<int64_t>(info.st_size, most)), '\0');
    size_t at = 0;
    while (at < bytes.size()) {
      const ssize_t count = read(fd, bytes.data() + at, bytes.size() - at);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return FileError(errno, "cannot read", path);
      if (count == 0) break;  // it has become shorter: the decoder will say so
      at += static_cast<size_t>(count);
    }
    bytes.resize(at);
    if (fstat(fd, &info) != 0) return FileError(errno, "cannot read", path);
    EBB_RETURN_IF_ERROR(CheckSame(path, {info.st_size, absl::TimeFromTimespec(info.st_mtim)}));
    return bytes;
  }

  Bytes held() const override {
    MutexLock lock(&mu_);
    return held_;
  }

 private:
  // What tells a file from another that has come in its place.
  struct Version {
    int64_t bytes = 0;
    absl::Time modified;
    bool operator==(const Version&) const = default;
  };

  absl::Status CheckSame(const std::string& path, const Version& version) const {
    MutexLock lock(&mu_);
    const auto [it, is_first] = read_.try_emplace(path, version);
    if (is_first) held_ += Bytes(static_cast<int64_t>(sizeof(*it) + path.size()));
    if (it->second == version) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("the file has been changed since the job was submitted: it has ",
                     version.bytes, " bytes of ", absl::FormatTime(version.modified), " and had ",
                     it->second.bytes, " bytes of ", absl::FormatTime(it->second.modified),
                     "; leave the folder as it is while a job reads it, and submit the job again"));
  }

  const HostRoots roots_;
  const std::string folder_;
  mutable Mutex mu_;
  mutable absl::flat_hash_map<std::string, Version> read_ ABSL_GUARDED_BY(mu_);
  mutable Bytes held_ ABSL_GUARDED_BY(mu_);
};

class Lister {
 public:
  Lister(const HostRoots& roots, const std::string& folder, const Reserve& reserve)
      : roots_(roots), folder_(folder), reserve_(reserve) {}

  // `inside`: "" or "CLASS/", to a directory that `fd` is open for; closes it.
  absl::Status List(int fd, const std::string& inside, int depth) {
    DIR* const directory = fdopendir(fd);
    if (directory == nullptr) {
      close(fd);
      return FileError(errno, "cannot list", absl::StrCat(folder_, "/", inside));
    }
    absl::Cleanup closer = [directory] { closedir(directory); };
    if (depth > kDeepest || ++directories_ > kMostDirectories) {
      return absl::InvalidArgumentError(absl::StrCat(
          inside, " is one directory too many; the limits are ", kDeepest, " in one another and ",
          kMostDirectories, " in all (symbolic links may lead in circles)"));
    }
    while (const dirent* entry = readdir(directory)) {
      const std::string name = entry->d_name;
      if (name[0] == '.') continue;  // itself, the one above, and what is hidden
      EBB_RETURN_IF_ERROR(Visit(inside + name, entry->d_type, depth));
    }
    return absl::OkStatus();
  }
  std::vector<std::string> Take() { return std::move(paths_); }

 private:
  absl::Status Visit(const std::string& path, unsigned char type, int depth) {
    const bool image = data::IsImageName(path);
    if (type == DT_REG || (image && type != DT_DIR)) {
      if (!image) return absl::OkStatus();
      EBB_RETURN_IF_ERROR(reserve_(Bytes(static_cast<int64_t>(4 * (sizeof(path) + path.size())))));
      paths_.push_back(path);
      return absl::OkStatus();
    }
    if (type != DT_DIR && type != DT_LNK && type != DT_UNKNOWN) return absl::OkStatus();
    const std::string full = absl::StrCat(folder_, "/", path);
    struct stat info;
    if (stat(full.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return absl::OkStatus();
    if (depth == 0) paths_.push_back(path + "/");
    EBB_ASSIGN_OR_RETURN(const int fd, roots_.Open(full));
    return List(fd, path + "/", depth + 1);
  }

  const HostRoots& roots_;
  const std::string& folder_;
  const Reserve& reserve_;
  std::vector<std::string> paths_;
  int directories_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const data::ImageSet>> OpenImageFolder(const HostRoots& roots,
                                                                      const std::string& path,
                                                                      const Reserve& reserve) {
  EBB_ASSIGN_OR_RETURN(const int fd, roots.Open(path));
  Lister lister(roots, path, reserve);
  EBB_RETURN_IF_ERROR(lister.List(fd, "", 0));
  EBB_ASSIGN_OR_RETURN(data::ImageList list, data::ListImages(lister.Take()));
  return data::ImageSet::Create(std::move(list), std::make_shared<FolderFiles>(roots, path));
}

}  // namespace ebb::daemon
