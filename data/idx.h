// The IDX format of MNIST and its relatives: one array, big-endian. Stateless.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "graph/types.h"

namespace ebb::data {

// Two zero bytes, a known element code and a rank >= 1.
bool IsIdx(absl::string_view bytes);

absl::StatusOr<graph::HostTensor> ParseIdx(absl::string_view bytes);

}  // namespace ebb::data
