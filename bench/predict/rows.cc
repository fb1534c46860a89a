#include "bench/predict/rows.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "bench/report.h"

namespace ebb::bench {
namespace {

std::string Optional(const std::optional<double>& value, absl::string_view none) {
  return value.has_value() ? absl::StrFormat("%.4g", *value) : std::string(none);
}

std::string GateText(const PredictRow& row) {
  if (!row.gate.has_value()) return "-";
  if (row.high_gate.has_value()) return absl::StrFormat("%.4g-%.4g", *row.gate, *row.high_gate);
  return absl::StrFormat("%s %.4g", row.at_least ? ">=" : "<=", *row.gate);
}

}  // namespace

bool PredictRow::passed() const {
  if (!gate.has_value()) return true;
  if (at_least) return value >= *gate && (!high_gate.has_value() || value <= *high_gate);
  return value <= *gate;
}

bool PredictRow::improves() const {
  return baseline.has_value() && (at_least ? value > *baseline : value < *baseline);
}

PredictRow RowOf(std::string name, absl::Span<const Predicted> tested, std::optional<double> gate,
                 std::optional<double> baseline) {
  EBB_CHECK(!tested.empty());
  PredictRow row{.name = std::move(name)};
  row.n = static_cast<int64_t>(tested.size());
  std::vector<double> errors;
  double covered = 0, sum = 0, bias = 0;
  bool intervals = false;
  for (const Predicted& one : tested) {
    const double off = one.median / one.measured - 1;
    errors.push_back(std::abs(off));
    sum += std::abs(off);
    bias += off;
    intervals |= one.high > 0;
    if (one.low <= one.measured && one.measured <= one.high) ++covered;
  }
  const double count = static_cast<double>(tested.size());
  row.mape = 100 * sum / count;
  row.bias = 100 * bias / count;
  const auto at = static_cast<int64_t>(std::ceil(0.9 * count)) - 1;
  std::nth_element(errors.begin(), errors.begin() + at, errors.end());
  row.p90 = 100 * errors[static_cast<size_t>(at)];
  if (intervals) row.coverage80 = 100 * covered / count;
  row.value = row.mape;
  row.gate = gate;
  row.baseline = baseline;
  return row;
}

std::string PredictTable(absl::Span<const PredictRow> rows) {
  std::string out = absl::StrFormat("%-58s %6s %7s %7s %7s %6s %8s %9s %8s\n", "row", "n", "mape %",
                                    "p90 %", "bias %", "80 %", "value", "gate", "baseline");
  for (const PredictRow& row : rows) {
    absl::StrAppendFormat(&out, "%-58s %6d %7.2f %7.2f %+7.2f %6s %8.4g %9s %8s  %s\n", row.name,
                          row.n, row.mape, row.p90, row.bias, Optional(row.coverage80, "-"),
                          row.value, GateText(row), Optional(row.baseline, "-"),
                          row.passed() ? (row.gate.has_value() ? "ok" : "") : "MISSED");
  }
  return out;
}

std::string PredictJson(absl::Span<const PredictRow> rows) {
  std::vector<std::string> lines;
  for (const PredictRow& row : rows) {
    lines.push_back(absl::StrFormat(
        "    {\"name\": %s, \"n\": %d, \"mape\": %.4f, \"p90\": %.4f, \"bias\": %.4f, "
        "\"coverage80\": %s, \"value\": %.4f, \"gate\": %s, \"high_gate\": %s, \"at_least\": %s, "
        "\"baseline\": %s, \"improves\": %s, \"passed\": %s}",
        Quoted(row.name), row.n, row.mape, row.p90, row.bias, Optional(row.coverage80, "null"),
        row.value, Optional(row.gate, "null"), Optional(row.high_gate, "null"),
        row.at_least ? "true" : "false", Optional(row.baseline, "null"),
        row.improves() ? "true" : "false", row.passed() ? "true" : "false"));
  }
  return absl::StrCat("{\n  \"rows\": [\n", absl::StrJoin(lines, ",\n"), "\n  ]\n}\n");
}

}  // namespace ebb::bench
