#include "perfmodel/curve_import.h"

#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"
#include "perfmodel/csv.h"

namespace ebb::perfmodel {
namespace {

constexpr size_t kMaxText = size_t{256} << 20;

struct ProgramName {
  absl::string_view name;
  CollectiveKind kind;
};
constexpr ProgramName kPrograms[] = {
    {"all_reduce", CollectiveKind::kAllReduce},
    {"all_gather", CollectiveKind::kAllGather},
    {"all_gather_base", CollectiveKind::kAllGather},
    {"reduce_scatter", CollectiveKind::kReduceScatter},
    {"reduce_scatter_base", CollectiveKind::kReduceScatter},
    {"alltoall", CollectiveKind::kAllToAll},
    {"all_to_all", CollectiveKind::kAllToAll},
    {"all_to_all_single", CollectiveKind::kAllToAll},
    {"all_to_allv", CollectiveKind::kAllToAll},
    {"broadcast", CollectiveKind::kBroadcast},
    {"sendrecv", CollectiveKind::kSendRecv},
    {"send_recv", CollectiveKind::kSendRecv},
};

// The whole number right after `word`, from the first place where one stands.
std::optional<int64_t> NumberAfter(absl::string_view text, absl::string_view word) {
  for (size_t at = text.find(word); at != absl::string_view::npos; at = text.find(word, at + 1)) {
    size_t begin = at + word.size();
    size_t end = begin;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
    int64_t number = 0;
    if (absl::SimpleAtoi(text.substr(begin, end - begin), &number)) return number;
  }
  return {};
}

absl::Status Fault(absl::string_view source, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(source, ": ", what));
}

absl::StatusOr<std::vector<Curve>> ReadVTrain(const CsvTable& table, absl::string_view source,
                                              const CurveHints& hints) {
  Curve::Subject subject{.source = std::string(source)};
  auto ranks = NumberAfter(source, "AR_GPU");
  if (!ranks.has_value()) ranks = hints.ranks;
  if (!ranks.has_value()) return Fault(source, "the number of ranks is missing (--ranks)");
  subject.ranks = *ranks;
  subject.nodes = hints.nodes.value_or(1);
  std::vector<CurvePoint> points;
  for (const CsvRow& row : table.rows()) {
    EBB_ASSIGN_OR_RETURN(const double bytes, row.Positive("size(B)"));
    EBB_ASSIGN_OR_RETURN(const double nanos, row.Positive("time(ns)"));
    points.push_back({bytes, nanos / 1e3});
  }
  EBB_ASSIGN_OR_RETURN(Curve curve, Curve::Make(std::move(subject), std::move(points)));
  return std::vector<Curve>{std::move(curve)};
}

absl::StatusOr<std::vector<Curve>> ReadVidur(const CsvTable& table, absl::string_view source) {
  std::map<std::tuple<CollectiveKind, int64_t, int64_t>, std::vector<CurvePoint>> points;
  for (const CsvRow& row : table.rows()) {
    EBB_ASSIGN_OR_RETURN(const absl::string_view name, row.Text("collective"));
    const auto kind = ParseCollective(name);
    if (!kind.ok()) return row.Error(kind.status().message());
    EBB_ASSIGN_OR_RETURN(const int64_t ranks, row.Whole("num_workers", 2, Curve::kMaxRanks));
    EBB_ASSIGN_OR_RETURN(const int64_t near, row.Whole("devices_per_node", 1, ranks));
    EBB_ASSIGN_OR_RETURN(const double bytes, row.Positive("size"));
    EBB_ASSIGN_OR_RETURN(const double millis,
                         row.Positive(absl::StrCat("time_stats.", name, ".median")));
    if (ranks % near != 0) return row.Error("devices_per_node does not divide num_workers");
    points[{*kind, ranks, ranks / near}].push_back({bytes, millis * 1e3});
  }
  std::vector<Curve> curves;
  for (auto& [subject, of] : points) {
    const auto& [kind, ranks, nodes] = subject;
    EBB_ASSIGN_OR_RETURN(Curve curve,
                         Curve::Make({kind, ranks, nodes, std::string(source)}, std::move(of)));
    curves.push_back(std::move(curve));
  }
  return curves;
}

absl::StatusOr<std::vector<Curve>> ReadPublished(const CsvTable& table, absl::string_view text,
                                                 absl::string_view source,
                                                 const CurveHints& hints) {
  Curve::Subject subject{.source = std::string(source)};
  if (hints.kind.has_value()) {
    subject.kind = *hints.kind;
  } else if (absl::StrContains(source, "allreduce") || absl::StrContains(source, "all_reduce")) {
    subject.kind = CollectiveKind::kAllReduce;
  } else {
    return Fault(source, "the kind of collective is missing (--kind)");
  }
  auto ranks = NumberAfter(text, "nranks ");
  if (!ranks.has_value()) ranks = hints.ranks;
  if (!ranks.has_value()) return Fault(source, "the number of ranks is missing (--ranks)");
  subject.ranks = *ranks;
  const auto near = NumberAfter(text, "gpus_per_node ");
  if (near.has_value() && *near > 0 && *near <= subject.ranks && subject.ranks % *near == 0) {
    subject.nodes = subject.ranks / *near;
  } else {
    subject.nodes = hints.nodes.value_or(1);
  }
  std::vector<CurvePoint> points;
  for (const CsvRow& row : table.rows()) {
    EBB_ASSIGN_OR_RETURN(const double bytes, row.Positive("bytes"));
    for (const char* column : {"time_us_out_of_place", "time_us_in_place"}) {
      if (!table.Has(column)) continue;
      EBB_ASSIGN_OR_RETURN(const absl::string_view cell, row.Text(column));
      if (cell.empty() || cell == "N/A") continue;
      EBB_ASSIGN_OR_RETURN(const double micros, row.Positive(column));
      points.push_back({bytes, micros});
    }
  }
  EBB_ASSIGN_OR_RETURN(Curve curve, Curve::Make(std::move(subject), std::move(points)));
  return std::vector<Curve>{std::move(curve)};
}

}  // namespace

absl::StatusOr<CollectiveKind> KindOfProgram(absl::string_view name) {
  absl::string_view word = name;
  absl::ConsumeSuffix(&word, "_perf");
  for (const ProgramName& program : kPrograms) {
    if (program.name == word) return program.kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", Escaped(name), "' measures no collective that is known here"));
}

absl::StatusOr<std::vector<Curve>> ReadCurveTable(absl::string_view text, absl::string_view source,
                                                  const CurveHints& hints) {
  if (text.size() > kMaxText) return Fault(source, "above 256 MiB");
  EBB_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(text, source));
  if (table.Has("time(ns)")) return ReadVTrain(table, source, hints);
  if (table.Has("num_workers")) return ReadVidur(table, source);
  if (table.Has("time_us_out_of_place") || table.Has("time_us_in_place")) {
    return ReadPublished(table, text, source, hints);
  }
  return Fault(source,
               "no table of collectives that is known here: its columns have neither time(ns), nor "
               "num_workers, nor time_us_out_of_place");
}

absl::StatusOr<std::vector<Curve>> ReadCurves(absl::string_view text, absl::string_view source,
                                              const CurveHints& hints) {
  if (text.size() > kMaxText) return Fault(source, "above 256 MiB");
  if (absl::StrContains(text, "COMMS-RES")) return ReadParamComms(text, source, hints);
  if (absl::StrContains(text, "algbw") || absl::StrContains(text, "nThread"))
    return ReadNcclTests(text, source, hints);
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    if (absl::StrContains(line, ',')) return ReadCurveTable(text, source, hints);
    break;
  }
  return Fault(source,
               "neither the output of nccl-tests, nor of PARAM's comms benchmark, nor a table of "
               "times divided by commas");
}

}  // namespace ebb::perfmodel
