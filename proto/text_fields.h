// Proto3 strings must be UTF-8: the receiver drops a message that holds others without saying why.
#pragma once

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace ebb::proto {

// InvalidArgument names the first string field that is not UTF-8, with its text escaped.
absl::Status CheckUtf8(const google::protobuf::Message& message);

}  // namespace ebb::proto
