// What frameworks call collectives and types of elements. Free functions without state.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "perfmodel/collective.h"

namespace ebb::perfmodel {

// "allreduce", "all_to_allv", "_allgather_base", "reduce_scatter_tensor", "send", ...
// Unimplemented names one that is none of Collective's kinds (a barrier, a wait).
absl::StatusOr<CollectiveKind> ParseCollectiveName(absl::string_view name);

// "Float", "float32", "c10::Half", "Int", ...: 4, 4, 2, 4. InvalidArgument: an unknown type.
absl::StatusOr<int64_t> ElementBytes(absl::string_view dtype);

// The bytes that perfmodel/collective.h counts: of all-gather the output's, else the input's.
double CountedBytes(CollectiveKind kind, double in_bytes, double out_bytes);

}  // namespace ebb::perfmodel
