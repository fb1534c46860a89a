// Which fields of a job spec this version acts on. Everything else that is set is refused by its
// name, so that nothing in a spec is ever ignored.
#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"
#include "ebb/v1/job.pb.h"

namespace ebb::daemon {

// Unimplemented: "optimizer.clip_norm is not supported by this version; ...".
absl::Status CheckSupported(const v1::JobSpec& spec);

// Unimplemented for a field number or an enum value that the schema of this version does not have,
// anywhere in a request but in its job spec, which CheckSupported() judges.
absl::Status CheckKnown(const google::protobuf::Message& request);

}  // namespace ebb::daemon
