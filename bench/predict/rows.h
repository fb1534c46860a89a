// What `ebb-bench predict` measures of the performance model: predictions held against figures that
// others measured, a row a question. Splits and seeds are fixed, nothing is fitted on what is
// tested. Free functions and plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace ebb::bench {

// One prediction beside what was measured, in any unit; the interval is meant to hold 80 %.
struct Predicted {
  double measured = 0;
  double median = 0;
  double low = 0, high = 0;  // both 0: the row has no intervals
};

struct PredictRow {
  std::string name;                  // "linear a100, 1000 samples"
  int64_t n = 0;                     // predictions that were tested
  double mape = 0;                   // mean of |predicted / measured - 1|, %
  double p90 = 0;                    // the 90th percentile of the same, %
  double bias = 0;                   // mean of predicted / measured - 1, %
  std::optional<double> coverage80;  // share of the measured that lie within the intervals, %
  // What the gate is about: `mape` unless the name says otherwise.
  double value = 0;
  std::optional<double> gate;       // none: reported only
  bool at_least = false;            // the value must be at least the gate; else at most
  std::optional<double> high_gate;  // with `at_least`: and at most this
  std::optional<double> baseline;   // what a simple model reaches on the same row

  bool passed() const;
  // Better than the baseline; false where there is none.
  bool improves() const;
};

// Errors of `tested`, none of it empty and none measured as 0; the gate is on the mape.
PredictRow RowOf(std::string name, absl::Span<const Predicted> tested,
                 std::optional<double> gate = {}, std::optional<double> baseline = {});

// The questions, a file each. `data` is the folder of measured figures; NotFound names what it
// lacks.
using RowMaker = absl::StatusOr<std::vector<PredictRow>> (*)(const std::string& data);
struct RowGroup {
  absl::string_view name;  // of --only
  RowMaker make;
  bool measures =
      false;  // takes times on this machine, which must be quiet: only where it is named
};
absl::Span<const RowGroup> RowGroups();

std::string PredictTable(absl::Span<const PredictRow> rows);
std::string PredictJson(absl::Span<const PredictRow> rows);

}  // namespace ebb::bench
