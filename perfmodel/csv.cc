#include "perfmodel/csv.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "base/text.h"

namespace ebb::perfmodel {
namespace {

absl::StatusOr<std::vector<std::string>> CellsOf(absl::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back().push_back(line[++i]);
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back().push_back(line[i]);
    }
  }
  if (quoted) return absl::InvalidArgumentError("a quoted cell does not end in its line");
  return cells;
}

}  // namespace

absl::Status CsvRow::Error(absl::string_view what) const {
  return absl::InvalidArgumentError(absl::StrCat(table_->source_, ":", line_, ": ", what));
}

absl::StatusOr<absl::string_view> CsvRow::Text(absl::string_view column) const {
  const auto it = table_->columns_.find(column);
  if (it == table_->columns_.end()) {
    return Error(
        absl::StrCat("the header (line ", table_->header_line_, ") has no column ", column));
  }
  return absl::string_view(cells_[it->second]);
}

absl::StatusOr<double> CsvRow::Number(absl::string_view column) const {
  EBB_ASSIGN_OR_RETURN(const absl::string_view text, Text(column));
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) {
    return Error(absl::StrCat("column ", column, ": '", Escaped(text), "' is no number"));
  }
  return value;
}

absl::StatusOr<double> CsvRow::Positive(absl::string_view column) const {
  EBB_ASSIGN_OR_RETURN(const absl::string_view text, Text(column));
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || !std::isfinite(value) || value <= 0) {
    return Error(absl::StrCat("column ", column, ": '", Escaped(text), "' is no number above 0"));
  }
  return value;
}

absl::StatusOr<int64_t> CsvRow::Whole(absl::string_view column, int64_t low, int64_t high) const {
  EBB_ASSIGN_OR_RETURN(const absl::string_view text, Text(column));
  double value = 0;
  if (!absl::SimpleAtod(text, &value) || value != std::floor(value) ||
      value < static_cast<double>(low) || value > static_cast<double>(high)) {
    return Error(absl::StrCat("column ", column, ": '", Escaped(text), "' is no whole number from ",
                              low, " to ", high));
  }
  return static_cast<int64_t>(value);
}

CsvTable& CsvTable::operator=(CsvTable&& other) noexcept {
  source_ = std::move(other.source_);
  header_line_ = other.header_line_;
  names_ = std::move(other.names_);
  columns_ = std::move(other.columns_);
  rows_ = std::move(other.rows_);
  for (CsvRow& row : rows_) row.table_ = this;
  return *this;
}

absl::StatusOr<CsvTable> CsvTable::Parse(absl::string_view text, absl::string_view source) {
  CsvTable table;
  table.source_ = std::string(source);
  absl::ConsumePrefix(&text, "\xEF\xBB\xBF");
  int64_t number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    absl::ConsumeSuffix(&line, "\r");
    if (line.empty() || line[0] == '#') continue;
    const std::string where = absl::StrCat(source, ":", number);
    auto cells = CellsOf(line);
    if (!cells.ok()) return Annotate(cells.status(), where);
    if (table.header_line_ == 0) {
      table.header_line_ = number;
      table.names_ = *std::move(cells);
      for (size_t c = 0; c < table.names_.size(); ++c) table.columns_.emplace(table.names_[c], c);
      continue;
    }
    if (cells->size() != table.names_.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": ", cells->size(), " cells, but the header has ", table.names_.size()));
    }
    CsvRow row;
    row.table_ = &table;
    row.line_ = number;
    row.cells_ = *std::move(cells);
    table.rows_.push_back(std::move(row));
  }
  if (table.rows_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":", number, ": the table has no rows below its header"));
  }
  return table;
}

}  // namespace ebb::perfmodel
