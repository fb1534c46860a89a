// Data sets of image files: their names, classes and sizes are in memory, their pixels are decoded
// when a batch needs them. Immutable; may be shared by jobs and threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "data/image_codec.h"

namespace ebb::data {

// Where encoded images come from: a folder, or an archive in memory. Thread-safe.
class ImageFiles {
 public:
  virtual ~ImageFiles() = default;
  // The first `most` bytes of a file, by its path in the set. Errors need not name it.
  virtual absl::StatusOr<std::string> Read(const std::string& path, int64_t most) const = 0;
  virtual Bytes held() const { return Bytes(0); }  // of the host's memory
};

// Which of a folder's files are rows, as torchvision's ImageFolder has them: a sub-directory is a
// class, labels are the places of classes in the order of their names, and rows follow class,
// directory and name. Files whose names do not end in .png, .jpg or .jpeg are left out, but other
// kinds of images are refused.
struct ImageList {
  std::vector<std::string> paths;  // CLASS/.../NAME
  std::vector<int64_t> labels;
  std::vector<std::string> classes;
};
// True of images that are rows and of those that are refused.
bool IsImageName(absl::string_view path);
// Of files `paths` has CLASS/.../NAME; CLASS/ alone says that there is such a directory.
// InvalidArgument: no image, an image in no class, or a class without an image, which would change
// the labels behind it. Unimplemented: an image of another kind.
absl::StatusOr<ImageList> ListImages(std::vector<std::string> paths);

class ImageSet {
 public:
  // Reads the header of every file. Errors name the file.
  static absl::StatusOr<std::shared_ptr<const ImageSet>> Create(
      ImageList list, std::shared_ptr<const ImageFiles> files);

  int64_t rows() const { return static_cast<int64_t>(list_.paths.size()); }
  const ImageList& list() const { return list_; }
  ImageSize size(int64_t row) const { return sizes_[static_cast<size_t>(row)]; }
  const std::string& path(int64_t row) const { return list_.paths[static_cast<size_t>(row)]; }
  Bytes bytes() const;
  // An error names the file; among them that its size is not what it was.
  absl::StatusOr<Image> Decode(int64_t row) const;

 private:
  ImageList list_;
  std::shared_ptr<const ImageFiles> files_;
  std::vector<ImageSize> sizes_;
};

// A zip of a folder of classes, itself inside one directory or not; its files are held as they are,
// encoded. ResourceExhausted: more than `limit`.
// `reserve` is asked before they are taken.
absl::StatusOr<std::shared_ptr<const ImageSet>> ParseImageZip(
    absl::string_view bytes, Bytes limit, const std::function<absl::Status(Bytes)>& reserve);

}  // namespace ebb::data
