// PNG and JPEG: what is decoded has the size that its header says.
#include "data/image_codec.h"
#include "tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes = ebb::fuzz::Text(data, size);
  const auto header = ebb::data::ReadImageSize(bytes);
  // What is large is slow, and its pixels are as those of what is small.
  if (header.ok() && header->height * header->width > 1 << 20) return 0;
  const auto image = ebb::data::DecodeImage(bytes);
  if (!image.ok()) return 0;
  EBB_FUZZ_CHECK(header.ok() && *header == image->size);
  EBB_FUZZ_CHECK(static_cast<int64_t>(image->rgb.size()) ==
                 3 * image->size.height * image->size.width);
  return 0;
}
