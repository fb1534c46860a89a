// Comma-separated text (RFC 4180) of numbers, and plain lists of integers. Stateless.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/dataset.h"
#include "graph/types.h"

namespace ebb::data {

// Fields "x" and "label" (see CsvOptions). Quoted cells, CRLF, blank lines and a byte-order mark
// are understood; the first row is a header when one of its cells is not a number. "nan" and "inf"
// are numbers here: Validate() refuses them. InvalidArgument names line and column.
absl::StatusOr<std::map<std::string, graph::HostTensor>> ParseCsv(absl::string_view text,
                                                                  const CsvOptions& options);

// One integer a line; blank lines are skipped.
absl::StatusOr<std::vector<int64_t>> ParseIntegerLines(absl::string_view text);

}  // namespace ebb::data
