#include "data/images.h"

#include <algorithm>
#include <new>
#include <tuple>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

// Enough for most headers; of what has more before its pixels the whole file is read.
constexpr int64_t kHeaderBytes = 64 << 10;

enum class FileKind { kImage, kOtherImage, kOther };

FileKind KindOf(absl::string_view path) {
  const std::string name = absl::AsciiStrToLower(path.substr(path.rfind('/') + 1));
  if (absl::StartsWith(name, ".")) return FileKind::kOther;  // such as what macOS leaves
  for (const char* end : {".png", ".jpg", ".jpeg"}) {
    if (absl::EndsWith(name, end)) return FileKind::kImage;
  }
  for (const char* end : {".ppm", ".pgm", ".bmp", ".tif", ".tiff", ".webp", ".gif"}) {
    if (absl::EndsWith(name, end)) return FileKind::kOtherImage;
  }
  return FileKind::kOther;
}

struct Place {
  std::string directory, name;  // of CLASS/.../NAME
  bool operator<(const Place& other) const {
    return std::tie(directory, name) < std::tie(other.directory, other.name);
  }
};

absl::Status About(const std::string& path, const absl::Status& status) {
  return Annotate(status, Quoted(path));
}

}  // namespace

bool IsImageName(absl::string_view path) { return KindOf(path) != FileKind::kOther; }

absl::StatusOr<ImageList> ListImages(std::vector<std::string> paths) {
  std::vector<std::pair<std::string, Place>> found;  // by class
  std::vector<std::string> directories;
  for (std::string& path : paths) {
    if (absl::EndsWith(path, "/")) {
      directories.push_back(path.substr(0, path.size() - 1));
      continue;
    }
    const FileKind kind = KindOf(path);
    if (kind == FileKind::kOther) continue;
    if (kind == FileKind::kOtherImage) {
      return absl::UnimplementedError(
          absl::StrCat(Quoted(path), " is no PNG and no JPEG; convert it, or take it away"));
    }
    const size_t first = path.find('/'), last = path.rfind('/');
    if (first == std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(Quoted(path),
                       " is in no class: every image lies in a sub-directory, whose "
                       "name is its class"));
    }
    found.push_back({path.substr(0, first), {path.substr(0, last), path.substr(last + 1)}});
  }
  if (found.empty()) {
    return absl::InvalidArgumentError(
        "there is no .png, .jpg or .jpeg in it; it must have a sub-directory a class");
  }
  std::sort(found.begin(), found.end());
  ImageList list;
  for (auto& [label, place] : found) {
    if (list.classes.empty() || list.classes.back() != label) list.classes.push_back(label);
    list.paths.push_back(absl::StrCat(place.directory, "/", place.name));
    list.labels.push_back(static_cast<int64_t>(list.classes.size()) - 1);
  }
  for (const std::string& directory : directories) {
    if (!std::binary_search(list.classes.begin(), list.classes.end(), directory)) {
      return absl::InvalidArgumentError(absl::StrCat(
          Quoted(directory), " is a class without an image; put one into it, or take it away"));
    }
  }
  return list;
}

absl::StatusOr<std::shared_ptr<const ImageSet>> ImageSet::Create(
    ImageList list, std::shared_ptr<const ImageFiles> files) {
  auto set = std::make_shared<ImageSet>();
  set->list_ = std::move(list);
  set->files_ = std::move(files);
  for (const std::string& path : set->list_.paths) {
    auto head = set->files_->Read(path, kHeaderBytes);
    if (!head.ok()) return About(path, head.status());
    absl::StatusOr<ImageSize> size = ReadImageSize(*head);
    if (size.status().code() == absl::StatusCode::kOutOfRange) {
      head = set->files_->Read(path, kMaxImageBytes);
      if (!head.ok()) return About(path, head.status());
      size = ReadImageSize(*head);
    }
    if (size.status().code() == absl::StatusCode::kOutOfRange) {
      return About(path, absl::InvalidArgumentError(size.status().message()));
    }
    if (!size.ok()) return About(path, size.status());
    set->sizes_.push_back(*size);
  }
  return std::shared_ptr<const ImageSet>(std::move(set));
}

Bytes ImageSet::bytes() const {
  Bytes total = files_->held() + Bytes(sizeof(ImageSize) + sizeof(int64_t)) * rows();
  for (const std::string& path : list_.paths) {
    total += Bytes(static_cast<int64_t>(sizeof(path) + path.size()));
  }
  return total;
}

absl::StatusOr<Image> ImageSet::Decode(int64_t row) const {
  const std::string& path = this->path(row);
  try {
    const auto bytes = files_->Read(path, kMaxImageBytes);
    if (!bytes.ok()) return About(path, bytes.status());
    absl::StatusOr<Image> image = DecodeImage(*bytes);
    if (!image.ok()) return About(path, image.status());
    if (image->size != size(row)) {
      return About(path,
                   absl::InvalidArgumentError(absl::StrCat(
                       "it has ", image->size.width, " x ", image->size.height, " pixels, but had ",
                       size(row).width, " x ", size(row).height, " when the job was submitted")));
    }
    return image;
  } catch (const std::bad_alloc&) {
    return About(path, absl::ResourceExhaustedError("the host has too little memory to decode it"));
  }
}

}  // namespace ebb::data
