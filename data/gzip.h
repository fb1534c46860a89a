// gzip (RFC 1952), unpacked under a limit. Stateless.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/units.h"
#include "data/dataset.h"

namespace ebb::data {

bool IsGzip(absl::string_view bytes);

// All members of the file, one after the other. InvalidArgument: damaged or cut short;
// ResourceExhausted: more than `limit`.
// `reserve` is asked for what comes out as it comes.
absl::StatusOr<std::string> Gunzip(absl::string_view bytes, Bytes limit,
                                   const Reserve& reserve = {});

}  // namespace ebb::data
