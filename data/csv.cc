// Splits text into records and cells, then turns columns into the fields of a data set.
#include "data/csv.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status.h"
#include "data/decode.h"

namespace ebb::data {
namespace {

// No table has more; a bound, so that a line of commas cannot take 48 times its size.
constexpr size_t kMaxColumns = 1 << 20;

struct Cell {
  std::string text;
  int64_t line = 0;    // from 1
  int64_t column = 0;  // cell of the record, from 1
};

std::string Where(const Cell& cell) {
  return absl::StrCat("csv line ", cell.line, ", column ", cell.column);
}

// Yields records one by one; reuses the cells' memory.
class RecordReader {
 public:
  explicit RecordReader(absl::string_view text) : rest_(text) {
    absl::ConsumePrefix(&rest_, "\xef\xbb\xbf");
  }

  // False at the end. Blank lines are skipped.
  absl::StatusOr<bool> Next(std::vector<Cell>* cells) {
    while (!rest_.empty()) {
      const size_t end = rest_.find('\n');
      const absl::string_view line = rest_.substr(0, end);
      if (!absl::StripAsciiWhitespace(line).empty()) break;
      rest_.remove_prefix(end == absl::string_view::npos ? rest_.size() : end + 1);
      ++line_;
    }
    count_ = 0;
    if (rest_.empty()) {
      cells->clear();
      return false;
    }
    bool more = true;
    while (more) {
      if (count_ == kMaxColumns) {
        return absl::InvalidArgumentError(
            absl::StrCat("csv line ", line_, ": more than ", kMaxColumns,
                         " columns; save arrays this wide with numpy.save"));
      }
      if (count_ == cells->size()) cells->emplace_back();
      Cell& cell = (*cells)[count_++];
      cell.text.clear();
      cell.line = line_;
      cell.column = static_cast<int64_t>(count_);
      EBB_ASSIGN_OR_RETURN(more, ReadCell(&cell));
    }
    cells->resize(count_);
    return true;
  }

 private:
  // True if another cell of the record follows.
  absl::StatusOr<bool> ReadCell(Cell* cell) {
    if (absl::StartsWith(rest_, "\"")) {
      EBB_RETURN_IF_ERROR(ReadQuoted(cell));
    } else {
      const size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
      const absl::string_view text = absl::StripAsciiWhitespace(rest_.substr(0, end));
      cell->text.assign(text.data(), text.size());
      rest_.remove_prefix(end);
    }
    if (absl::ConsumePrefix(&rest_, ",")) return true;
    if (absl::ConsumePrefix(&rest_, "\n")) ++line_;
    return false;
  }

  absl::Status ReadQuoted(Cell* cell) {
    rest_.remove_prefix(1);
    while (true) {
      const size_t quote = rest_.find('"');
      if (quote == absl::string_view::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat(Where(*cell), ": the quote that begins here is never closed"));
      }
      const absl::string_view text = rest_.substr(0, quote);
      for (char c : text) line_ += c == '\n';
      cell->text.append(text.data(), text.size());
      rest_.remove_prefix(quote + 1);
      if (!absl::ConsumePrefix(&rest_, "\"")) break;
      cell->text.push_back('"');
    }
    const size_t end = std::min(rest_.find_first_of(",\n"), rest_.size());
    if (!absl::StripAsciiWhitespace(rest_.substr(0, end)).empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          Where(*cell), ": text after a closing quote; write a quote inside a cell as \"\""));
    }
    rest_.remove_prefix(end);
    return absl::OkStatus();
  }

  absl::string_view rest_;
  int64_t line_ = 1;
  size_t count_ = 0;
};

enum class Parsed { kOk, kNotANumber, kTooLarge };

template <class T>
Parsed ParseNumber(absl::string_view text, T* value) {
  text = absl::StripAsciiWhitespace(text);
  if (absl::ConsumePrefix(&text, "+") && absl::StartsWith(text, "-")) return Parsed::kNotANumber;
  const absl::from_chars_result result =
      absl::from_chars(text.data(), text.data() + text.size(), *value);
  if (text.empty() || result.ptr != text.data() + text.size()) return Parsed::kNotANumber;
  if (result.ec == std::errc::result_out_of_range && std::abs(*value) > 1) return Parsed::kTooLarge;
  return result.ec == std::errc::invalid_argument ? Parsed::kNotANumber : Parsed::kOk;
}

template <class T>
absl::Status ParseCell(const Cell& cell, T* value) {
  switch (ParseNumber(cell.text, value)) {
    case Parsed::kOk:
      return absl::OkStatus();
    case Parsed::kTooLarge:
      return absl::InvalidArgumentError(
          absl::StrCat(Where(cell), ": ", Quoted(cell.text), " is too large; scale the column"));
    case Parsed::kNotANumber:
      break;
  }
  if (cell.text.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(Where(cell), ": the cell is empty; fill it in or remove the row"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(Where(cell), ": ", Quoted(cell.text),
                   " is not a number; columns must be numeric and separated by commas (encode "
                   "categories as 0, 1, 2, ...)"));
}

bool IsHeader(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    double value = 0;
    if (ParseNumber(cell.text, &value) == Parsed::kNotANumber) return true;
  }
  return false;
}

// The label column: whole numbers as long as all of them are.
class LabelColumn {
 public:
  absl::Status Add(const Cell& cell) {
    int64_t whole = 0;
    double value = 0;
    if (absl::SimpleAtoi(cell.text, &whole)) {
      value = static_cast<double>(whole);
    } else {
      EBB_RETURN_IF_ERROR(ParseCell(cell, &value));
      constexpr double kExact = 9007199254740992;  // 2^53
      if (std::abs(value) <= kExact && value == std::floor(value)) {
        whole = static_cast<int64_t>(value);
      } else {
        all_whole_ = false;
      }
    }
    whole_.push_back(whole);
    const float rounded = static_cast<float>(value);
    if (std::isinf(rounded) && !std::isinf(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(Where(cell), ": ", Quoted(cell.text), " is too large; scale the column"));
    }
    real_.push_back(rounded);
    return absl::OkStatus();
  }

  graph::HostTensor Take() && {
    const auto rows = static_cast<int64_t>(whole_.size());
    return all_whole_ ? graph::HostTensor::Of(graph::DType::kI64, {rows}, whole_)
                      : graph::HostTensor::Of(graph::DType::kF32, {rows}, real_);
  }

 private:
  bool all_whole_ = true;
  std::vector<int64_t> whole_;
  std::vector<float> real_;
};

absl::StatusOr<size_t> LabelIndex(size_t columns, int label_column) {
  if (columns < 2) {
    return absl::InvalidArgumentError(
        "csv: there is one column only; it needs a label and at least one input, separated by "
        "commas");
  }
  const int64_t count = static_cast<int64_t>(columns);
  const int64_t index = label_column < 0 ? count + label_column : label_column;
  if (index < 0 || index >= count) {
    return absl::InvalidArgumentError(
        absl::StrCat("csv: label_column ", label_column, " is out of range; there are ", columns,
                     " columns, counted from 0 (or from -1 at the end)"));
  }
  return static_cast<size_t>(index);
}

}  // namespace

absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseCsv(absl::string_view text,
                                                                  const CsvOptions& options) {
  RecordReader reader(text);
  std::vector<Cell> cells;
  EBB_ASSIGN_OR_RETURN(bool more, reader.Next(&cells));
  const size_t columns = cells.size();
  if (more && IsHeader(cells)) {
    EBB_ASSIGN_OR_RETURN(more, reader.Next(&cells));
  }
  if (!more) return absl::InvalidArgumentError("csv: there is no row of numbers in it");
  EBB_ASSIGN_OR_RETURN(const size_t label_index, LabelIndex(columns, options.label_column));

  graph::HostTensor x;
  LabelColumn labels;
  int64_t rows = 0;
  for (; more; ++rows) {
    if (cells.size() != columns) {
      return absl::InvalidArgumentError(absl::StrCat("csv line ", cells[0].line, ": ", cells.size(),
                                                     " columns, but the first row has ", columns));
    }
    for (size_t i = 0; i < columns; ++i) {
      if (i == label_index) {
        EBB_RETURN_IF_ERROR(labels.Add(cells[i]));
      } else {
        float value = 0;
        EBB_RETURN_IF_ERROR(ParseCell(cells[i], &value));
        const auto* bytes = reinterpret_cast<const std::byte*>(&value);
        x.data.insert(x.data.end(), bytes, bytes + sizeof(value));
      }
    }
    EBB_ASSIGN_OR_RETURN(more, reader.Next(&cells));
  }
  x.type = {graph::DType::kF32, {rows, static_cast<int64_t>(columns) - 1}};
  std::map<std::string, graph::HostTensor> fields;
  fields.emplace("x", std::move(x));
  fields.emplace("label", std::move(labels).Take());
  return fields;
}

absl::StatusOr<std::vector<int64_t>> ParseIntegerLines(absl::string_view text) {
  std::vector<int64_t> values;
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  for (int64_t line = 1; !text.empty(); ++line) {
    const size_t end = text.find('\n');
    const absl::string_view word = absl::StripAsciiWhitespace(text.substr(0, end));
    text.remove_prefix(end == absl::string_view::npos ? text.size() : end + 1);
    if (word.empty()) continue;
    int64_t value = 0;
    if (!absl::SimpleAtoi(word, &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("index line ", line, ": ", Quoted(word), " is not a whole number"));
    }
    values.push_back(value);
  }
  return values;
}

}  // namespace ebb::data
