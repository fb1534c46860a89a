#include "perfmodel/log_lines.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace ebb::perfmodel {

absl::string_view WithoutPrefix(absl::string_view line) {
  absl::ConsumeSuffix(&line, "\r");
  if (!line.empty() && line[0] == '[') {
    for (const absl::string_view mark : {"<stdout>:", "<stderr>:"}) {
      const size_t at = line.substr(0, 40).find(mark);
      if (at != absl::string_view::npos) return line.substr(at + mark.size());
    }
  }
  const size_t colon = line.substr(0, 8).find(": ");
  if (colon != absl::string_view::npos && IsWhole(line.substr(0, colon))) {
    return line.substr(colon + 2);
  }
  return line;
}

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

bool IsWhole(absl::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return absl::ascii_isdigit(c); });
}

}  // namespace ebb::perfmodel
