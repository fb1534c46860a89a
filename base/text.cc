#include "base/text.h"

#include <cstdint>

#include "absl/strings/str_format.h"

namespace ebb {
namespace {

// Takes one character off the front: its code point, or -1 and one byte where there is none.
int32_t TakeCharacter(absl::string_view* text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>((*text)[i]); };
  const unsigned char lead = byte(0);
  size_t length = 1;
  int32_t point = lead;
  if (lead >= 0x80) {
    length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    point = lead & (0x7f >> length);
    bool well_formed = lead >= 0xc2 && lead <= 0xf4 && text->size() >= length;
    for (size_t i = 1; well_formed && i < length; ++i) {
      well_formed = (byte(i) & 0xc0) == 0x80;
      point = point << 6 | (byte(i) & 0x3f);
    }
    const bool overlong = (length == 3 && point < 0x800) || (length == 4 && point < 0x10000);
    const bool surrogate = point >= 0xd800 && point <= 0xdfff;
    if (!well_formed || overlong || surrogate || point > 0x10ffff) {
      length = 1;
      point = -1;
    }
  }
  text->remove_prefix(length);
  return point;
}

bool MayBeShown(int32_t point) {
  if (point < 0x20 || (point >= 0x7f && point < 0xa0)) return false;
  const bool separator = point == 0x2028 || point == 0x2029;
  const bool direction = point == 0x61c || point == 0x200e || point == 0x200f ||
                         (point >= 0x202a && point <= 0x202e) ||
                         (point >= 0x2066 && point <= 0x2069);
  return !separator && !direction && point != 0xfeff;
}

std::string Escape(absl::string_view text, bool keep_line_breaks) {
  std::string result;
  while (!text.empty()) {
    const absl::string_view rest = text;
    const int32_t point = TakeCharacter(&text);
    const absl::string_view taken = rest.substr(0, rest.size() - text.size());
    if (MayBeShown(point) || (keep_line_breaks && point == '\n')) {
      result.append(taken.data(), taken.size());
    } else if (point == '\n') {
      result += "\\n";
    } else if (point == '\t') {
      result += "\\t";
    } else if (point >= 0x80) {
      absl::StrAppendFormat(&result, "\\u%04x", point);
    } else {
      absl::StrAppendFormat(&result, "\\x%02x", static_cast<unsigned char>(taken[0]));
    }
  }
  return result;
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    if (TakeCharacter(&text) < 0) return false;
  }
  return true;
}

bool IsPrintable(absl::string_view text) {
  while (!text.empty()) {
    if (!MayBeShown(TakeCharacter(&text))) return false;
  }
  return true;
}

std::string Escaped(absl::string_view text) { return Escape(text, false); }
std::string EscapedLines(absl::string_view text) { return Escape(text, true); }

}  // namespace ebb
