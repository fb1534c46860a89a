// A folder of images in a zip, held encoded in memory.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "base/status.h"
#include "data/images.h"
#include "data/zip.h"

namespace ebb::data {
namespace {

class HeldFiles : public ImageFiles {
 public:
  void Add(std::string path, std::string content) {
    held_ += Bytes(static_cast<int64_t>(content.size()));
    files_[std::move(path)] = std::move(content);
  }
  absl::StatusOr<std::string> Read(const std::string& path, int64_t most) const override {
    const auto it = files_.find(path);
    if (it == files_.end()) return absl::NotFoundError("it is not there");
    return it->second.substr(0, static_cast<size_t>(most));
  }
  Bytes held() const override { return held_; }

  // What all are in, if it is one directory with more than files in it, is no class but a folder.
  void TakeOutOfFolder() {
    if (files_.empty()) return;
    const std::string& first = files_.begin()->first;
    const std::string folder = first.substr(0, first.find('/') + 1);
    const bool all = std::all_of(files_.begin(), files_.end(), [&](const auto& file) {
      return absl::StartsWith(file.first, folder) &&
             file.first.find('/', folder.size()) != std::string::npos;
    });
    if (folder.empty() || !all) return;
    std::map<std::string, std::string> out;
    for (auto& [path, content] : files_) out[path.substr(folder.size())] = std::move(content);
    files_ = std::move(out);
  }
  std::vector<std::string> Paths() const {
    std::vector<std::string> paths;
    for (const auto& [path, content] : files_) paths.push_back(path);
    return paths;
  }

 private:
  std::map<std::string, std::string> files_;
  Bytes held_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const ImageSet>> ParseImageZip(
    absl::string_view bytes, Bytes limit, const std::function<absl::Status(Bytes)>& reserve) {
  auto files = std::make_shared<HeldFiles>();
  const auto filter = [&](absl::string_view name, Bytes size) -> absl::StatusOr<ZipEntry> {
    if (!IsImageName(name)) return ZipEntry::kSkip;
    if (reserve && size <= limit) EBB_RETURN_IF_ERROR(reserve(size));
    return ZipEntry::kRead;
  };
  const auto visit = [&](absl::string_view name, std::string content) {
    files->Add(std::string(name), std::move(content));
    return absl::OkStatus();
  };
  EBB_RETURN_IF_ERROR(
      VisitZip(bytes, {"zip of images", "make it again with zip -r"}, limit, filter, visit));
  files->TakeOutOfFolder();
  EBB_ASSIGN_OR_RETURN(ImageList list, ListImages(files->Paths()));
  return ImageSet::Create(std::move(list), std::move(files));
}

}  // namespace ebb::data
