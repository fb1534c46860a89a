#include "base/units.h"

#include <cmath>

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

std::ostream& operator<<(std::ostream& os, Bytes bytes) { return os << bytes.count() << " B"; }
std::ostream& operator<<(std::ostream& os, Micros micros) { return os << micros.count() << " us"; }

}  // namespace ebb
