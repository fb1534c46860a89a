// PNG (libpng) and JPEG (libjpeg-turbo) to pixels. Stateless; any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::data {

struct ImageSize {
  int64_t height = 0;
  int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

// Images of more pixels are refused by their header: decoded they take three bytes each.
constexpr int64_t kMaxPixels = 32 << 20;
// Encoded images of more bytes are refused unread.
constexpr int64_t kMaxImageBytes = 64 << 20;

// Red, green, blue of each pixel, row after row from the top.
struct Image {
  ImageSize size;
  std::vector<uint8_t> rgb;
};

// By content. `bytes` may be the beginning of a file: OutOfRange says that the header ends behind
// it. InvalidArgument: damaged or too large. Unimplemented: another format, or CMYK.
absl::StatusOr<ImageSize> ReadImageSize(absl::string_view bytes);

// As PIL's Image.open(f).convert("RGB"): grey is repeated, palettes are looked up, transparency is
// dropped, the orientation in EXIF and gamma are left alone; of 16 bits the upper 8 count (for grey
// too). InvalidArgument: damaged or cut short anywhere.
absl::StatusOr<Image> DecodeImage(absl::string_view bytes);

}  // namespace ebb::data
