// Names of the wire as people write them: an enum value OBJECT_KIND_DATA is "data".
#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ebb::proto {

// The value's name without the prefix that all values of its enum share, in lower case.
std::string ShortName(const google::protobuf::EnumValueDescriptor& value);
// Of a number; the number itself when the enum has no such value.
std::string ShortName(const google::protobuf::EnumDescriptor& type, int number);
// Null when no value has this short name. Upper and lower case are the same.
const google::protobuf::EnumValueDescriptor* FindShortName(
    const google::protobuf::EnumDescriptor& type, absl::string_view name);

// The candidate that is most likely meant by a misspelt `name`; "" when none is near.
std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates);

}  // namespace ebb::proto
