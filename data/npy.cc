// The .npy header is a literal of Python: {'descr': '<f4', 'fortran_order': False, 'shape': (3,
// 4)}. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "data/npy.h"

#include <cstdint>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxRank = 32;  // numpy's own

struct Header {
  std::string descr;
  bool fortran_order = false;
  graph::Shape shape;
};

absl::Status BadHeader(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("npy header: ", what, "; save the array again with numpy.save"));
}

// Reads the few forms of literal that numpy writes.
class HeaderReader {
 public:
  explicit HeaderReader(absl::string_view text) : rest_(text) {}

  absl::StatusOr<Header> Read() {
    Header header;
    bool has_descr = false, has_order = false, has_shape = false;
    if (!Take('{')) return BadHeader("does not begin with {");
    while (!Take('}')) {
      const std::optional<std::string> key = String();
      if (!key || !Take(':')) return BadHeader("expected 'key': value");
      bool* has = *key == "descr"           ? &has_descr
                  : *key == "fortran_order" ? &has_order
                  : *key == "shape"         ? &has_shape
                                            : nullptr;
      if (has == nullptr) return BadHeader(absl::StrCat("unknown key ", Quoted(*key)));
      if (*has) return BadHeader(absl::StrCat("key ", Quoted(*key), " twice"));
      *has = true;
      EBB_RETURN_IF_ERROR(Value(*key, &header));
      if (!Take(',') && !Peek('}')) return BadHeader("expected , or }");
    }
    if (!has_descr || !has_order || !has_shape) {
      return BadHeader("descr, fortran_order and shape must all be there");
    }
    Skip();
    if (!rest_.empty()) return BadHeader("text after }");
    return header;
  }

 private:
  void Skip() { rest_ = absl::StripLeadingAsciiWhitespace(rest_); }
  bool Peek(char c) {
    Skip();
    return !rest_.empty() && rest_[0] == c;
  }
  bool Take(char c) {
    if (!Peek(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool TakeWord(absl::string_view word) {
    Skip();
    if (!absl::StartsWith(rest_, word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string> String() {
    Skip();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    std::string text(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return text;
  }
  std::optional<int64_t> Integer() {
    Skip();
    size_t digits = 0;
    while (digits < rest_.size() && absl::ascii_isdigit(rest_[digits])) ++digits;
    int64_t value = 0;
    if (!absl::SimpleAtoi(rest_.substr(0, digits), &value)) return std::nullopt;
    rest_.remove_prefix(digits);
    if (!rest_.empty() && rest_[0] == 'L') rest_.remove_prefix(1);  // Python 2
    return value;
  }

  absl::Status Value(absl::string_view key, Header* header) {
    if (key == "descr") {
      if (Peek('[')) {
        return absl::UnimplementedError(
            "npy: structured arrays are not supported; save each field as an array of its own "
            "with numpy.savez");
      }
      const std::optional<std::string> descr = String();
      if (!descr) return BadHeader("descr is not a string");
      header->descr = *descr;
    } else if (key == "fortran_order") {
      header->fortran_order = TakeWord("True");
      if (!header->fortran_order && !TakeWord("False")) {
        return BadHeader("fortran_order is neither True nor False");
      }
    } else {
      if (!Take('(')) return BadHeader("shape is not a tuple");
      while (!Take(')')) {
        const std::optional<int64_t> dim = Integer();
        if (!dim) return BadHeader("shape has a dimension that is not a number >= 0");
        if (header->shape.size() == kMaxRank) return BadHeader("shape has too many dimensions");
        header->shape.push_back(*dim);
        if (!Take(',') && !Peek(')')) return BadHeader("expected , or ) in shape");
      }
    }
    return absl::OkStatus();
  }

  absl::string_view rest_;
};

absl::StatusOr<RawElement> ParseDescr(absl::string_view descr) {
  if (descr == "|O") {
    return absl::UnimplementedError(
        "npy: the array holds Python objects, which are not loaded; convert it to numbers of one "
        "type, e.g. array.astype(numpy.float32)");
  }
  const auto unsupported = [&] {
    return absl::UnimplementedError(
        absl::StrCat("npy: element type ", Quoted(descr),
                     " is not supported; convert the array to float32, float64, int32, int64, "
                     "uint8 or bool, e.g. array.astype(numpy.float32)"));
  };
  if (descr.size() < 3 || !absl::StrContains("<>|=", descr[0])) return unsupported();
  RawElement element;
  element.order = descr[0] == '>' ? ByteOrder::kBig : ByteOrder::kLittle;
  element.kind = descr[1];
  if (!absl::SimpleAtoi(descr.substr(2), &element.bytes)) return unsupported();
  if (!absl::StrContains("fiub", element.kind)) return unsupported();
  return element;
}

uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

}  // namespace

bool IsNpy(absl::string_view bytes) { return absl::StartsWith(bytes, kMagic); }

absl::StatusOr<NpyArray> OpenNpy(absl::string_view bytes) {
  constexpr size_t kVersionAt = 6, kLengthAt = 8;
  if (!IsNpy(bytes) || bytes.size() < kLengthAt) return BadHeader("no NUMPY magic");
  const int version = static_cast<uint8_t>(bytes[kVersionAt]);
  if (version < 1 || version > 3) {
    return absl::UnimplementedError(
        absl::StrCat("npy: version ", version, " is not supported; only 1, 2 and 3 are"));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  const size_t header_at = kLengthAt + length_bytes;
  if (bytes.size() < header_at) return BadHeader("the file is cut short");
  const uint64_t length = LittleEndian(bytes.substr(kLengthAt, length_bytes));
  if (length > bytes.size() - header_at) return BadHeader("the file is cut short");
  EBB_ASSIGN_OR_RETURN(const Header header, HeaderReader(bytes.substr(header_at, length)).Read());
  if (header.fortran_order && header.shape.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("npy: the array of shape ", graph::ToString(header.shape),
                     " is in Fortran (column-major) order; save numpy.ascontiguousarray(array)"));
  }
  EBB_ASSIGN_OR_RETURN(const RawElement element, ParseDescr(header.descr));
  return NpyArray{element, header.shape, bytes.substr(header_at + length)};
}

absl::StatusOr<graph::HostTensor> ParseNpy(absl::string_view bytes) {
  EBB_ASSIGN_OR_RETURN(const NpyArray array, OpenNpy(bytes));
  absl::StatusOr<graph::HostTensor> tensor = DecodeArray(array.element, array.shape, array.payload);
  if (!tensor.ok()) return Annotate(tensor.status(), "npy");
  return tensor;
}

}  // namespace ebb::data
