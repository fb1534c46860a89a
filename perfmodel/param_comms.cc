// What PARAM's comms benchmark prints.
#include <map>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status.h"
#include "base/text.h"
#include "perfmodel/curve_import.h"
#include "perfmodel/log_lines.h"

namespace ebb::perfmodel {
namespace {

constexpr absl::string_view kMark = "COMMS-RES-";

// "world_size: 8", "'world_size': 8", "world_size=8": 0 where the line says none.
int64_t WorldSize(absl::string_view line) {
  constexpr absl::string_view kWord = "world_size";
  size_t at = line.find(kWord);
  if (at == absl::string_view::npos) return 0;
  at = line.find_first_not_of("'\":= ", at + kWord.size());
  if (at == absl::string_view::npos) return 0;
  int64_t ranks = 0;
  const size_t end = line.find_first_not_of("0123456789", at);
  return absl::SimpleAtoi(line.substr(at, end - at), &ranks) ? ranks : 0;
}

}  // namespace

absl::StatusOr<std::vector<Curve>> ReadParamComms(absl::string_view text, absl::string_view source,
                                                  const CurveHints& hints) {
  std::map<CollectiveKind, std::vector<CurvePoint>> points;
  int64_t number = 0, world = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const auto fault = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat(source, ":", number, ": ", what));
    };
    if (const int64_t says = WorldSize(line); says > 0) {
      if (world > 0 && world != says) return fault("runs of two world sizes in one text");
      world = says;
    }
    const size_t at = line.find(kMark);
    if (at == absl::string_view::npos) continue;
    // COMMS-RES-KIND-TYPE[TAG] size elements p50 p75 p95 min max algbw busbw ...
    const std::vector<absl::string_view> words = Words(WithoutPrefix(line.substr(at)));
    if (absl::StartsWith(words[0], "COMMS-RES-QUANT")) continue;
    if (words.size() > 1 && !IsWhole(words[1])) continue;  // the header
    const absl::string_view name = words[0].substr(kMark.size());
    const auto kind = KindOfProgram(name.substr(0, name.find('-')));
    if (!kind.ok()) return fault(kind.status().message());
    if (words.size() < 10) {
      return fault(absl::StrCat(
          words.size() - 1, " numbers where there should be 9 at least; is the line cut short?"));
    }
    CurvePoint point;
    if (!absl::SimpleAtod(words[1], &point.bytes) || !absl::SimpleAtod(words[3], &point.micros)) {
      return fault(absl::StrCat("'", Escaped(words[3]), "' is no time"));
    }
    if (point.bytes == 0) continue;
    points[*kind].push_back(point);
    if (points[*kind].size() > Curve::kMaxPoints) return fault("too many measurements");
  }
  const auto fault = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", what));
  };
  if (points.empty()) return fault("no COMMS-RES line of it is a measurement");
  if (world == 0 && !hints.ranks.has_value()) {
    return fault("the number of ranks is missing (--ranks)");
  }
  std::vector<Curve> curves;
  for (auto& [kind, of] : points) {
    EBB_ASSIGN_OR_RETURN(Curve curve, Curve::Make({kind, world > 0 ? world : *hints.ranks,
                                                   hints.nodes.value_or(1), std::string(source)},
                                                  std::move(of)));
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace ebb::perfmodel
