#include "proto/names.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ebb::proto {

std::string ShortName(const google::protobuf::EnumValueDescriptor& value) {
  // The first value is PREFIX_UNSPECIFIED or PREFIX_NONE.
  absl::string_view prefix = value.type()->value(0)->name();
  if (!absl::ConsumeSuffix(&prefix, "UNSPECIFIED")) absl::ConsumeSuffix(&prefix, "NONE");
  absl::string_view name = value.name();
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

std::string ShortName(const google::protobuf::EnumDescriptor& type, int number) {
  const auto* value = type.FindValueByNumber(number);
  return value == nullptr ? absl::StrCat(number) : ShortName(*value);
}

const google::protobuf::EnumValueDescriptor* FindShortName(
    const google::protobuf::EnumDescriptor& type, absl::string_view name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (int i = 0; i < type.value_count(); ++i) {
    if (ShortName(*type.value(i)) == lower) return type.value(i);
  }
  return nullptr;
}

std::string Nearest(absl::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > 64) return "";
  std::string best;
  size_t best_distance = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    // Levenshtein distance, row by row.
    std::vector<size_t> row(candidate.size() + 1);
    std::iota(row.begin(), row.end(), size_t{0});
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = std::exchange(row[0], i);
      for (size_t j = 1; j <= candidate.size(); ++j) {
        const size_t replaced = diagonal + (name[i - 1] == candidate[j - 1] ? 0 : 1);
        diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
      }
    }
    if (row.back() < best_distance) {
      best_distance = row.back();
      best = candidate;
    }
  }
  return best;
}

}  // namespace ebb::proto
