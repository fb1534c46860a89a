// The short forms of job files: which scalars stand for which messages and numbers.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace ebb::client {

enum class ShortForm { kNone, kRead, kBad };

// A scalar where a message is expected: "1 epoch", "top5", "2h", "auto", "output:loss". kNone: the
// message has no such form; kBad: `what` says what it should look like.
ShortForm ReadShortForm(absl::string_view text, google::protobuf::Message* message,
                        std::string* what);

// Decimal integers, also as 1e7. nullopt if it is none or does not fit.
std::optional<int64_t> ParseInteger(absl::string_view text);
std::optional<uint64_t> ParseUnsigned(absl::string_view text);
// A named or scaled value of one field: "high" for a priority, "12GiB" for memory.
std::optional<int64_t> ParseNamedInteger(absl::string_view text,
                                         const google::protobuf::FieldDescriptor& field);
// What such a field takes beside numbers, for messages: " or low, normal, high"; "" for most.
std::string NamedIntegers(const google::protobuf::FieldDescriptor& field);

}  // namespace ebb::client
