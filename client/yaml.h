// Job files: YAML (and with it JSON) -> ebb.v1.JobSpec, by the field names of the message and the
// short forms of docs/jobspec.md. Free functions; hostile text gives an error, never a crash.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "ebb/v1/job.pb.h"
#include "ebb/v1/predict.pb.h"

namespace ebb::client {

// `source` is what messages call the text: "FILE:LINE:COLUMN: path.of.field: what is wrong".
// InvalidArgument for anything that is no job spec; an unknown field suggests the nearest name.
absl::StatusOr<v1::JobSpec> ParseSpec(absl::string_view text, absl::string_view source);

// Embedding tables for `ebb shard`: the message ShardEmbeddingsRequest, field by field.
absl::StatusOr<v1::ShardEmbeddingsRequest> ParseTables(absl::string_view text,
                                                       absl::string_view source);

// "key.path=value", as `ebb submit --set` takes it; the value is YAML with the same short forms.
// A repeated field is replaced as a whole, or one element by its index:
// "optimizer.groups.0.frozen".
absl::Status ApplyOverride(absl::string_view assignment, v1::JobSpec* spec);

}  // namespace ebb::client
