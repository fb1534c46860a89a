#include "perfmodel/formats/wire.h"

#include "absl/strings/str_cat.h"
#include "base/status.h"

namespace ebb::perfmodel {
namespace {

absl::Status Damaged(size_t at, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("byte ", at, ": ", what));
}

int FixedBytes(WireType type) { return type == WireType::kFixed64 ? 8 : 4; }

void AppendTag(int number, WireType type, std::string& out) {
  AppendVarint(static_cast<uint64_t>(number) << 3 | static_cast<uint64_t>(type), out);
}

}  // namespace

absl::StatusOr<absl::string_view> WireReader::Take(uint64_t size) {
  if (size > text_.size() - at_) {
    return Damaged(at_, absl::StrCat("ends where ", size, " bytes should follow"));
  }
  const absl::string_view taken = text_.substr(at_, size);
  at_ += size;
  return taken;
}

absl::StatusOr<uint64_t> WireReader::Varint() {
  uint64_t value = 0;
  const size_t begin = at_;
  for (int shift = 0; shift < 64; shift += 7) {
    if (done()) return Damaged(at_, "ends in a number");
    const auto byte = static_cast<unsigned char>(text_[at_++]);
    value |= static_cast<uint64_t>(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return Damaged(begin, "a number is longer than ten bytes");
}

absl::StatusOr<absl::string_view> WireReader::Delimited() {
  EBB_ASSIGN_OR_RETURN(const uint64_t size, Varint());
  return Take(size);
}

absl::StatusOr<WireField> WireReader::Next() {
  const size_t begin = at_;
  EBB_ASSIGN_OR_RETURN(const uint64_t tag, Varint());
  WireField field{.number = static_cast<int>(tag >> 3 & 0x1fffffff),
                  .type = static_cast<WireType>(tag & 7)};
  if (field.number == 0 || tag >> 32 != 0) return Damaged(begin, "is no field");
  switch (field.type) {
    case WireType::kVarint: {
      EBB_ASSIGN_OR_RETURN(field.value, Varint());
      return field;
    }
    case WireType::kBytes: {
      EBB_ASSIGN_OR_RETURN(field.bytes, Delimited());
      return field;
    }
    case WireType::kFixed64:
    case WireType::kFixed32: {
      const int size = FixedBytes(field.type);
      EBB_ASSIGN_OR_RETURN(const absl::string_view bytes, Take(size));
      for (int i = size - 1; i >= 0; --i) {
        field.value = field.value << 8 | static_cast<unsigned char>(bytes[i]);
      }
      return field;
    }
  }
  return Damaged(begin, absl::StrCat("type ", tag & 7, " of a field is unknown"));
}

void AppendVarint(uint64_t value, std::string& out) {
  while (value >= 128) {
    out.push_back(static_cast<char>(value | 128));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

void AppendVarintField(int number, uint64_t value, std::string& out) {
  AppendTag(number, WireType::kVarint, out);
  AppendVarint(value, out);
}

void AppendFixedField(int number, WireType type, uint64_t value, std::string& out) {
  AppendTag(number, type, out);
  for (int i = 0; i < FixedBytes(type); ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

void AppendBytesField(int number, absl::string_view bytes, std::string& out) {
  AppendTag(number, WireType::kBytes, out);
  AppendVarint(bytes.size(), out);
  out.append(bytes.data(), bytes.size());
}

}  // namespace ebb::perfmodel
