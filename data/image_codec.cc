#include "data/image_codec.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "data/image_jpeg.h"
#include "data/image_png.h"

namespace ebb::data {
namespace {

absl::Status RefuseForeign(absl::string_view bytes) {
  struct Foreign {
    absl::string_view magic;
    absl::string_view name;
  };
  constexpr Foreign kForeign[] = {
      {"GIF8", "GIF"}, {"BM", "BMP"}, {"RIFF", "WebP"}, {"II*", "TIFF"},
      {"MM", "TIFF"},  {"P5", "PGM"}, {"P6", "PPM"},    {"\xff\x4f", "JPEG 2000"}};
  for (const Foreign& foreign : kForeign) {
    if (absl::StartsWith(bytes, foreign.magic)) {
      return absl::UnimplementedError(
          absl::StrCat("it is a ", foreign.name, ", but PNG and JPEG are read; convert it"));
    }
  }
  return absl::InvalidArgumentError("it is neither PNG nor JPEG");
}

}  // namespace

absl::StatusOr<ImageSize> ReadImageSize(absl::string_view bytes) {
  if (IsPng(bytes)) return ReadPngSize(bytes);
  if (IsJpeg(bytes)) return ReadJpegSize(bytes);
  return RefuseForeign(bytes);
}

absl::StatusOr<Image> DecodeImage(absl::string_view bytes) {
  if (IsPng(bytes)) return DecodePng(bytes);
  if (IsJpeg(bytes)) return DecodeJpeg(bytes);
  return RefuseForeign(bytes);
}

}  // namespace ebb::data
