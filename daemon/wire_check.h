// Range checks of numbers that come in on the wire; errors name the field.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace ebb::daemon {

inline constexpr int64_t kMaxCount = int64_t{1} << 40;

// Finite and low <= value <= high.
inline absl::Status CheckNumber(absl::string_view field, double value, double low,
                                double high = std::numeric_limits<double>::max()) {
  if (std::isfinite(value) && value >= low && value <= high) return absl::OkStatus();
  if (high == std::numeric_limits<double>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " is ", value, "; it must be a number of at least ", low));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be between ", low, " and ", high));
}

inline absl::Status CheckCount(absl::string_view field, int64_t value, int64_t low,
                               int64_t high = kMaxCount) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be between ", low, " and ", high));
}

}  // namespace ebb::daemon
