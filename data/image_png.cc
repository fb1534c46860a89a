#include "data/image_png.h"

#include <png.h>
#include <setjmp.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::data {
namespace {

// Chunks beside the pixels (profiles, text) may unpack to so much.
constexpr png_alloc_size_t kMaxChunk = 8 << 20;

// What libpng works on and leaves behind. Nothing in it is made or destroyed between a setjmp and
// its longjmp.
struct Reading {
  absl::string_view left;
  char message[128] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::vector<png_bytep> rows;

  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
};

void OnError(png_structp png, png_const_charp message) {
  auto* reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(reading->message, message, sizeof(reading->message) - 1);
  png_longjmp(png, 1);
}
void OnWarning(png_structp, png_const_charp) {}

void Read(png_structp png, png_bytep to, size_t count) {
  auto* reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading->left.size()) png_error(png, "the file is cut short");
  std::memcpy(to, reading->left.data(), count);
  reading->left.remove_prefix(count);
}

// False: `reading` says why. Only trivial objects live here (setjmp).
bool ReadHeader(Reading* reading) {
  if (setjmp(png_jmpbuf(reading->png)) != 0) return false;
  png_set_read_fn(reading->png, reading, Read);
  png_set_chunk_malloc_max(reading->png, kMaxChunk);
  png_read_info(reading->png, reading->info);
  return true;
}

bool ReadPixels(Reading* reading) {
  if (setjmp(png_jmpbuf(reading->png)) != 0) return false;
  png_read_image(reading->png, reading->rows.data());
  png_read_end(reading->png, nullptr);
  return true;
}

// After this every pixel is three bytes.
bool AskForRgb(Reading* reading) {
  if (setjmp(png_jmpbuf(reading->png)) != 0) return false;
  png_set_strip_16(reading->png);
  png_set_expand(reading->png);  // palettes, and 1, 2, 4 bits
  png_set_strip_alpha(reading->png);
  png_set_gray_to_rgb(reading->png);
  png_set_interlace_handling(reading->png);
  png_read_update_info(reading->png, reading->info);
  return true;
}

absl::Status Start(Reading* reading) {
  reading->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, reading, OnError, OnWarning);
  if (reading->png != nullptr) reading->info = png_create_info_struct(reading->png);
  if (reading->info == nullptr) {
    return absl::ResourceExhaustedError("the host has too little memory to read the image");
  }
  return absl::OkStatus();
}

absl::Status Damaged(const Reading& reading) {
  return absl::InvalidArgumentError(absl::StrCat("PNG: ", reading.message));
}

}  // namespace

bool IsPng(absl::string_view bytes) { return absl::StartsWith(bytes, "\x89PNG\r\n\x1a\n"); }

// IHDR is the first chunk and has a fixed place; DecodePng has libpng check the rest.
absl::StatusOr<ImageSize> ReadPngSize(absl::string_view bytes) {
  constexpr size_t kHeader = 8 + 8 + 13 + 4;
  if (bytes.size() < kHeader) return absl::OutOfRangeError("PNG: the file is cut short");
  const auto number = [&](size_t at) {
    int64_t value = 0;
    for (size_t i = at; i < at + 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  };
  if (bytes.substr(12, 4) != "IHDR" || number(8) != 13) {
    return absl::InvalidArgumentError("PNG: it does not begin with its header");
  }
  const ImageSize size{number(20), number(16)};
  if (size.width < 1 || size.height < 1) {
    return absl::InvalidArgumentError("PNG: it has no pixels");
  }
  if (size.width > kMaxPixels / size.height) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", size.width, " x ", size.height,
                                                   " pixels, more than the limit of ", kMaxPixels,
                                                   "; make it smaller"));
  }
  return size;
}

absl::StatusOr<Image> DecodePng(absl::string_view bytes) {
  EBB_ASSIGN_OR_RETURN(const ImageSize size, ReadPngSize(bytes));
  Reading reading{.left = bytes};
  EBB_RETURN_IF_ERROR(Start(&reading));
  if (!ReadHeader(&reading) || !AskForRgb(&reading)) return Damaged(reading);
  const auto row_bytes = static_cast<size_t>(3 * size.width);
  if (png_get_rowbytes(reading.png, reading.info) != row_bytes ||
      png_get_image_height(reading.png, reading.info) != static_cast<uint64_t>(size.height)) {
    return absl::InvalidArgumentError("PNG: its pixels are of no known kind");
  }
  Image image{size, std::vector<uint8_t>(row_bytes * static_cast<size_t>(size.height))};
  for (size_t at = 0; at < image.rgb.size(); at += row_bytes) {
    reading.rows.push_back(image.rgb.data() + at);
  }
  if (!ReadPixels(&reading)) return Damaged(reading);
  return image;
}

}  // namespace ebb::data
