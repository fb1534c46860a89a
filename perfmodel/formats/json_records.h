// Large JSON texts whose bulk is one array of small objects, read an object at a time. Free
// functions without state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace ebb::perfmodel {

struct JsonLimits {
  size_t depth = 64;            // of objects and arrays in each other
  size_t records = 20'000'000;  // elements of the array
  size_t values = 4'000'000;    // within one element, or one other field
};

struct JsonHandlers {
  // An element of the array and its index.
  std::function<absl::Status(const nlohmann::json& record, size_t index)> record;
  // Another field of the outermost object.
  std::function<void(const std::string& key, const nlohmann::json& value)> field;
};

// `array`: the field of the outermost object that holds the records; "": the text is itself the
// array. InvalidArgument with the byte's number where the text is no JSON or beyond a limit, with
// the record's number where it is no object or `record` refuses it; and where there is no `array`.
absl::Status ReadJsonRecords(absl::string_view text, absl::string_view array,
                             const JsonHandlers& handlers, const JsonLimits& limits = {});

// Fields of an object; nullopt where there is none of that kind.
std::optional<double> NumberIn(const nlohmann::json& object, const char* key);
std::optional<int64_t> IntegerIn(const nlohmann::json& object, const char* key);  // whole numbers
std::optional<std::string> StringIn(const nlohmann::json& object, const char* key);
// The whole numbers of a list, without what else is in it; none where it is no list.
std::vector<int64_t> IntegersOf(const nlohmann::json& list);
// The field, or null.
const nlohmann::json& FieldIn(const nlohmann::json& object, const char* key);

}  // namespace ebb::perfmodel
