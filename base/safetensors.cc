#include "base/safetensors.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status.h"
#include "nlohmann/json.hpp"

namespace ebb {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeader = 16 << 20;  // some 100,000 tensors
constexpr absl::string_view kMetadata = "__metadata__";

absl::Status Invalid(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what));
}

// REQUIRES 8 bytes.
uint64_t HeaderLength(absl::string_view bytes) {
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i) {
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return length;
}

bool HeaderFits(absl::string_view bytes) {
  return HeaderLength(bytes) <= std::min<uint64_t>(kMaxHeader, bytes.size() - 8);
}

absl::StatusOr<SafetensorsEntry> ReadEntry(const std::string& name, const json& item,
                                           absl::string_view data) {
  const std::string where = absl::StrCat("tensor '", name, "'");
  const bool shaped = item.is_object() && item.contains("dtype") && item["dtype"].is_string() &&
                      item.contains("shape") && item["shape"].is_array() &&
                      item.contains("data_offsets") && item["data_offsets"].is_array() &&
                      item["data_offsets"].size() == 2;
  if (!shaped) return Invalid(absl::StrCat(where, " lacks dtype, shape or data_offsets"));
  SafetensorsEntry entry{.name = name, .dtype = item["dtype"].get<std::string>()};
  for (const json& dim : item["shape"]) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > uint64_t{1} << 40) {
      return Invalid(absl::StrCat(where, " has a dimension that is no valid size"));
    }
    entry.shape.push_back(dim.get<int64_t>());
  }
  for (const json& offset : item["data_offsets"]) {
    if (!offset.is_number_unsigned()) {
      return Invalid(absl::StrCat(where, " has a data offset that is no unsigned number"));
    }
  }
  entry.begin = item["data_offsets"][0].get<uint64_t>();
  const uint64_t end = item["data_offsets"][1].get<uint64_t>();
  if (end < entry.begin || end > data.size()) {
    return Invalid(absl::StrCat(where, " lies at offsets ", entry.begin, " to ", end, " of ",
                                data.size(), " bytes of data"));
  }
  entry.payload = data.substr(entry.begin, end - entry.begin);
  return entry;
}

}  // namespace

bool IsSafetensors(absl::string_view bytes) {
  return bytes.size() > 8 && bytes[8] == '{' && HeaderFits(bytes);
}

absl::StatusOr<std::vector<SafetensorsEntry>> OpenSafetensors(absl::string_view bytes) {
  if (bytes.size() < 8) return Invalid("the file is shorter than its 8-byte length");
  const uint64_t length = HeaderLength(bytes);
  if (!HeaderFits(bytes)) {
    return Invalid(absl::StrCat("a header of ", length, " bytes does not fit the file of ",
                                bytes.size(), " bytes"));
  }
  const absl::string_view text = bytes.substr(8, length);
  const absl::string_view data = bytes.substr(8 + length);
  const json header = json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) return Invalid("the header is no JSON object");
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, item] : header.items()) {
    if (absl::string_view(name) == kMetadata) continue;
    EBB_ASSIGN_OR_RETURN(SafetensorsEntry entry, ReadEntry(name, item, data));
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::make_tuple(a.begin, a.payload.size()) <
                     std::make_tuple(b.begin, b.payload.size());
            });
  uint64_t at = 0;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.begin != at) {
      return Invalid(absl::StrCat("tensor '", entry.name, "' lies at ", entry.begin, " to ",
                                  entry.begin + entry.payload.size(), "; expected it at ", at,
                                  ", behind the tensor before it"));
    }
    at += entry.payload.size();
  }
  if (at != data.size()) {
    return Invalid(absl::StrCat(data.size() - at, " bytes after the last tensor belong to none"));
  }
  return entries;
}

}  // namespace ebb
