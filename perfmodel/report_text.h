// Reports of strategies for people and for scripts. Pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "perfmodel/report.h"

namespace ebb::perfmodel {

// A line a strategy.
std::string StrategyTable(absl::Span<const StrategyReport> reports);
// Everything of one: breakdown, memory, confidence, bottleneck.
std::string StrategyText(const StrategyReport& report);
std::string ComparisonText(const Comparison& comparison);

// Throughput over the number of GPUs, the best report of each number; beside it what as many GPUs
// alone would give. The text is `columns` wide and begins with no colour codes.
std::string ScalingText(absl::Span<const StrategyReport> reports, int columns = 72);
// The same as a picture with intervals, on its own as a file.
std::string ScalingSvg(absl::Span<const StrategyReport> reports, absl::string_view title);

// An object with all fields.
std::string ToJson(const StrategyReport& report);
// {"alone": .., "ranking": [..], "refused": [..], "expected_regret": ..}
std::string ToJson(const Comparison& comparison);

}  // namespace ebb::perfmodel
