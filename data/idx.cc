// IDX: 0, 0, element code, rank, then `rank` 32-bit dimensions and the elements.
#include "data/idx.h"

#include <cstdint>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

std::optional<RawElement> ElementOf(uint8_t code) {
  switch (code) {
    case 0x08:
      return RawElement{'u', 1, ByteOrder::kBig};
    case 0x09:
      return RawElement{'i', 1, ByteOrder::kBig};
    case 0x0B:
      return RawElement{'i', 2, ByteOrder::kBig};
    case 0x0C:
      return RawElement{'i', 4, ByteOrder::kBig};
    case 0x0D:
      return RawElement{'f', 4, ByteOrder::kBig};
    case 0x0E:
      return RawElement{'f', 8, ByteOrder::kBig};
    default:
      return std::nullopt;
  }
}

uint8_t ByteAt(absl::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

}  // namespace

bool IsIdx(absl::string_view bytes) {
  return bytes.size() >= 4 && bytes[0] == 0 && bytes[1] == 0 && ElementOf(ByteAt(bytes, 2)) &&
         ByteAt(bytes, 3) > 0;
}

absl::StatusOr<graph::HostTensor> ParseIdx(absl::string_view bytes) {
  if (!IsIdx(bytes)) return absl::InvalidArgumentError("idx: not an IDX file");
  const size_t rank = ByteAt(bytes, 3);
  const size_t header = 4 + 4 * rank;
  if (bytes.size() < header) {
    return absl::InvalidArgumentError(absl::StrCat("idx: ", rank, " dimensions need a header of ",
                                                   header, " bytes, but there are ", bytes.size(),
                                                   "; the file is damaged or cut short"));
  }
  graph::Shape shape;
  for (size_t i = 4; i < header; i += 4) {
    int64_t dim = 0;
    for (size_t j = 0; j < 4; ++j) dim = dim << 8 | ByteAt(bytes, i + j);
    shape.push_back(dim);
  }
  absl::StatusOr<graph::HostTensor> tensor =
      DecodeArray(*ElementOf(ByteAt(bytes, 2)), shape, bytes.substr(header));
  if (!tensor.ok()) return Annotate(tensor.status(), "idx");
  return tensor;
}

}  // namespace ebb::data
