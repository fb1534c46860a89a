#include "base/units.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"

namespace ebb {

std::string FormatBytes(Bytes bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes.count());
  int unit = 0;
  while (std::abs(value) >= 1024.0 && unit < 5) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) return absl::StrFormat("%d B", bytes.count());
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::optional<Bytes> ParseBytes(absl::string_view text) {
  text = absl::StripAsciiWhitespace(text);
  size_t end = 0;
  while (end < text.size() &&
         (absl::ascii_isdigit(static_cast<unsigned char>(text[end])) || text[end] == '.'))
    ++end;
  double value = 0;
  if (end == 0 || !absl::SimpleAtod(text.substr(0, end), &value)) return std::nullopt;
  const std::string unit = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text.substr(end)));
  static constexpr absl::string_view kPrefixes = "kmgtp";
  double scale = 1;
  if (!unit.empty() && unit != "b") {
    const size_t prefix = kPrefixes.find(unit[0]);
    if (prefix == kPrefixes.npos) return std::nullopt;
    const absl::string_view rest = absl::string_view(unit).substr(1);
    if (!rest.empty() && rest != "ib" && rest != "b") return std::nullopt;
    scale = std::pow(rest == "b" ? 1000.0 : 1024.0, static_cast<double>(prefix + 1));
  }
  value = std::round(value * scale);
  if (!(value < 9.2e18)) return std::nullopt;
  return Bytes(static_cast<int64_t>(value));
}

std::ostream& operator<<(std::ostream& os, Bytes bytes) { return os << bytes.count() << " B"; }
std::ostream& operator<<(std::ostream& os, Micros micros) { return os << micros.count() << " us"; }

}  // namespace ebb
