// Which fields of a job spec this version acts on. Everything else that is set is refused by its
// name, so that nothing in a spec is ever ignored.
#pragma once

#include "absl/status/status.h"
#include "ebb/v1/job.pb.h"

namespace ebb::daemon {

// Unimplemented: "optimizer.clip_norm is not supported by this version; ...".
absl::Status CheckSupported(const v1::JobSpec& spec);

}  // namespace ebb::daemon
