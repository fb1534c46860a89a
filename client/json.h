// Wire messages as JSON for scripts: field names as in the .proto, plain numbers (64-bit ones too),
// zero fields always there, enums by their short names, times as RFC 3339 text, durations in
// seconds. What is not set (an optional number, a message) is null; of a oneof only the member that
// is set.
#pragma once

#include <google/protobuf/message.h>

#include <string>

namespace ebb::client {

enum class JsonStyle { kIndented, kOneLine };
std::string ToJson(const google::protobuf::Message& message, JsonStyle style);

}  // namespace ebb::client
