// The files of the folder sim/, embedded by device/sim/CMakeLists.txt. Immutable.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace ebb::device {

struct BuiltinProfile {
  absl::string_view name;  // the file's name without .yaml
  absl::string_view text;
};
absl::Span<const BuiltinProfile> BuiltinProfiles();

}  // namespace ebb::device
