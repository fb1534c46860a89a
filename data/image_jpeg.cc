#include "data/image_jpeg.h"

#include <setjmp.h>
#include <stdio.h>  // jpeglib.h needs it before it
// In this order.
#include <jerror.h>
#include <jpeglib.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::data {
namespace {

// Files that make the decoder go over all pixels again and again take its time.
constexpr int kMaxScans = 100;

// What libjpeg works on and leaves behind. Nothing in it is made or destroyed between a setjmp and
// its longjmp.
struct Reading {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_source_mgr source = {};
  jpeg_progress_mgr progress = {};
  jmp_buf failed;
  bool ran_out = false;
  char message[JMSG_LENGTH_MAX] = "";

  explicit Reading(absl::string_view bytes);
  ~Reading() { jpeg_destroy_decompress(&jpeg); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

Reading* Of(j_common_ptr jpeg) { return static_cast<Reading*>(jpeg->client_data); }

void Fail(j_common_ptr jpeg, const char* message) {
  snprintf(Of(jpeg)->message, sizeof(Of(jpeg)->message), "%s", message);
  longjmp(Of(jpeg)->failed, 1);
}
void OnError(j_common_ptr jpeg) {
  char message[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, message);
  Fail(jpeg, message);
}
// Warnings of less than all pixels are damage that libjpeg would paper over with grey.
void OnMessage(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_TOO_MUCH_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_ICC:
      return;
    default:
      OnError(jpeg);
  }
}
void OnProgress(j_common_ptr jpeg) {
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxScans) {
    Fail(jpeg, "it has too many scans");
  }
}

void Nothing(j_decompress_ptr) {}
boolean RunOut(j_decompress_ptr jpeg) {
  auto* common = reinterpret_cast<j_common_ptr>(jpeg);
  Of(common)->ran_out = true;
  Fail(common, "the file is cut short");
  return FALSE;
}
void Skip(j_decompress_ptr jpeg, long count) {
  if (count <= 0) return;
  if (static_cast<size_t>(count) > jpeg->src->bytes_in_buffer) {
    RunOut(jpeg);
    return;
  }
  jpeg->src->next_input_byte += count;
  jpeg->src->bytes_in_buffer -= static_cast<size_t>(count);
}

Reading::Reading(absl::string_view bytes) {
  jpeg.err = jpeg_std_error(&errors);
  errors.error_exit = OnError;
  errors.emit_message = OnMessage;
  jpeg.client_data = this;
  source.init_source = Nothing;
  source.fill_input_buffer = RunOut;
  source.skip_input_data = Skip;
  source.resync_to_restart = jpeg_resync_to_restart;
  source.term_source = Nothing;
  source.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
  source.bytes_in_buffer = bytes.size();
  progress.progress_monitor = OnProgress;
}

// False: `reading` says why. Only trivial objects live here (setjmp).
bool ReadHeader(Reading* reading) {
  if (setjmp(reading->failed) != 0) return false;
  jpeg_create_decompress(&reading->jpeg);
  reading->jpeg.src = &reading->source;
  reading->jpeg.progress = &reading->progress;
  jpeg_read_header(&reading->jpeg, TRUE);
  return true;
}

bool ReadPixels(Reading* reading, uint8_t* to) {
  if (setjmp(reading->failed) != 0) return false;
  reading->jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&reading->jpeg);
  while (reading->jpeg.output_scanline < reading->jpeg.output_height) {
    JSAMPROW row = to + size_t{3} * reading->jpeg.output_width * reading->jpeg.output_scanline;
    jpeg_read_scanlines(&reading->jpeg, &row, 1);
  }
  jpeg_finish_decompress(&reading->jpeg);
  return true;
}

absl::StatusOr<ImageSize> SizeOf(Reading* reading) {
  if (!ReadHeader(reading)) {
    const std::string what = absl::StrCat("JPEG: ", reading->message);
    return reading->ran_out ? absl::OutOfRangeError(what) : absl::InvalidArgumentError(what);
  }
  const ImageSize size{reading->jpeg.image_height, reading->jpeg.image_width};
  const J_COLOR_SPACE space = reading->jpeg.jpeg_color_space;
  if (space == JCS_CMYK || space == JCS_YCCK) {
    return absl::UnimplementedError(
        "it is a JPEG in CMYK, the colours of printers; convert it to RGB");
  }
  if (space != JCS_GRAYSCALE && space != JCS_YCbCr && space != JCS_RGB) {
    return absl::UnimplementedError("it is a JPEG of unknown colours; convert it to RGB");
  }
  if (size.width < 1 || size.height < 1) {
    return absl::InvalidArgumentError("JPEG: it has no pixels");
  }
  if (size.width > kMaxPixels / size.height) {
    return absl::InvalidArgumentError(absl::StrCat("it has ", size.width, " x ", size.height,
                                                   " pixels, more than the limit of ", kMaxPixels,
                                                   "; make it smaller"));
  }
  return size;
}

}  // namespace

bool IsJpeg(absl::string_view bytes) { return absl::StartsWith(bytes, "\xff\xd8\xff"); }

absl::StatusOr<ImageSize> ReadJpegSize(absl::string_view bytes) {
  Reading reading(bytes);
  return SizeOf(&reading);
}

absl::StatusOr<Image> DecodeJpeg(absl::string_view bytes) {
  Reading reading(bytes);
  EBB_ASSIGN_OR_RETURN(const ImageSize size, SizeOf(&reading));
  Image image{size, std::vector<uint8_t>(static_cast<size_t>(3 * size.width * size.height))};
  if (!ReadPixels(&reading, image.rgb.data())) {
    return absl::InvalidArgumentError(absl::StrCat("JPEG: ", reading.message));
  }
  return image;
}

}  // namespace ebb::data
