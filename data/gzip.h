// gzip (RFC 1952), unpacked under a limit. Stateless.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"

namespace ebb::data {

bool IsGzip(absl::string_view bytes);

// All members of the file, one after the other. InvalidArgument: damaged or cut short;
// ResourceExhausted: more than `limit`.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, Bytes limit);

}  // namespace ebb::data
