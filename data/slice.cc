#include "data/slice.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

// False when the text is neither empty nor a whole number.
bool ReadBound(absl::string_view text, std::optional<int64_t>* bound) {
  if (text.empty()) return true;
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return false;
  *bound = value;
  return true;
}

std::string InWords(const RowSlice& slice) {
  return absl::StrCat("[", slice.from ? absl::StrCat(*slice.from) : std::string(), ":",
                      slice.to ? absl::StrCat(*slice.to) : std::string(), "]");
}

}  // namespace

absl::StatusOr<FieldSlice> ParseFieldSlice(absl::string_view text) {
  FieldSlice result;
  const size_t open = text.find('[');
  result.field = std::string(text.substr(0, open));
  if (open == absl::string_view::npos) return result;
  const std::pair<absl::string_view, absl::string_view> bounds =
      absl::StrSplit(text.substr(open + 1, text.size() - open - 2), absl::MaxSplits(':', 1));
  if (open + 2 > text.size() || text.back() != ']' || !absl::StrContains(text, ':') ||
      !ReadBound(bounds.first, &result.slice.from) || !ReadBound(bounds.second, &result.slice.to)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text),
                     " is not a slice of a field; write field[a:b], field[a:] or field[:b], with "
                     "numbers that count along axis 1 (negative ones from its end)"));
  }
  return result;
}

absl::StatusOr<RowPart> PartOf(const RowSlice& slice, const graph::Shape& field_shape) {
  RowPart part{.shape = graph::Shape(field_shape.begin() + 1, field_shape.end())};
  part.elements = graph::NumElements(part.shape);
  if (!slice.from && !slice.to) return part;
  if (part.shape.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the slice ", InWords(slice), " needs an axis 1, but a row is one number"));
  }
  const int64_t size = part.shape[0];
  const auto place = [size](int64_t bound) { return bound < 0 ? size + bound : bound; };
  const int64_t from = place(slice.from.value_or(0));
  const int64_t to = place(slice.to.value_or(size));
  if (from < 0 || to > size || from >= to) {
    return absl::InvalidArgumentError(absl::StrCat("the slice ", InWords(slice),
                                                   " takes nothing, or more than there is: axis 1 "
                                                   "has ",
                                                   size, " elements"));
  }
  const int64_t inner = part.elements / size;
  part.first = from * inner;
  part.elements = (to - from) * inner;
  part.shape[0] = to - from;
  return part;
}

}  // namespace ebb::data
