// The PNG side of data/image_codec.h. Stateless.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/image_codec.h"

namespace ebb::data {

bool IsPng(absl::string_view bytes);
absl::StatusOr<ImageSize> ReadPngSize(absl::string_view bytes);
absl::StatusOr<Image> DecodePng(absl::string_view bytes);

}  // namespace ebb::data
