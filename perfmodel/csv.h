// Tables of numbers from foreign hands: lines of cells divided by commas, the first line names the
// columns. Immutable once parsed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ebb::perfmodel {

// One line; errors are InvalidArgument and begin with its place, "SOURCE:LINE: ".
class CsvRow {
 public:
  absl::StatusOr<absl::string_view> Text(absl::string_view column) const;
  absl::StatusOr<double> Number(absl::string_view column) const;    // finite
  absl::StatusOr<double> Positive(absl::string_view column) const;  // finite, above 0
  // A whole number, also written as 64.0.
  absl::StatusOr<int64_t> Whole(absl::string_view column, int64_t low, int64_t high) const;
  absl::Status Error(absl::string_view what) const;

 private:
  friend class CsvTable;
  const class CsvTable* table_ = nullptr;
  int64_t line_ = 0;
  std::vector<std::string> cells_;
};

class CsvTable {
 public:
  // A cell in quotes may hold commas, and "" for a quote, and ends in its line. A byte-order mark,
  // carriage returns, empty lines and lines that begin with '#' are passed over. InvalidArgument:
  // a line of another width than the header, or no line below it.
  static absl::StatusOr<CsvTable> Parse(absl::string_view text, absl::string_view source);

  CsvTable(CsvTable&& other) noexcept { *this = std::move(other); }
  CsvTable& operator=(CsvTable&& other) noexcept;

  const std::vector<CsvRow>& rows() const { return rows_; }
  bool Has(absl::string_view column) const { return columns_.contains(column); }
  const std::vector<std::string>& columns() const { return names_; }

 private:
  friend class CsvRow;
  CsvTable() = default;

  std::string source_;
  int64_t header_line_ = 0;
  std::vector<std::string> names_;
  std::map<std::string, size_t, std::less<>> columns_;  // the first of equal names
  std::vector<CsvRow> rows_;
};

}  // namespace ebb::perfmodel
