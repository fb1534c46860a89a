// absl::Status <-> grpc::Status, code by code: both ends of the wire use this table.
#pragma once

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace ebb::proto {

// Messages longer than what fits a gRPC trailer are cut, with a mark.
grpc::Status ToGrpc(const absl::Status& status);
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace ebb::proto
