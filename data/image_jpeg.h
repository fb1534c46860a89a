// The JPEG side of data/image_codec.h. Stateless.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image_codec.h"

namespace ebb::data {

bool IsJpeg(absl::string_view bytes);
absl::StatusOr<ImageSize> ReadJpegSize(absl::string_view bytes);
absl::StatusOr<Image> DecodeJpeg(absl::string_view bytes);

}  // namespace ebb::data
