#include "perfmodel/report_text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "perfmodel/scaling.h"

namespace ebb::perfmodel {
namespace {

std::string Optional(const std::optional<double>& value, int digits, double scale = 1) {
  if (!value.has_value()) return "-";
  return absl::StrFormat("%.*f", digits, *value * scale);
}

double MostMemory(const StrategyReport& report) {
  double most = 0;
  for (const MemoryFit& fit : report.memory) most = std::max(most, fit.total());
  return most / std::exp2(30);
}

}  // namespace

std::string StrategyTable(absl::Span<const StrategyReport> reports) {
  std::string out =
      absl::StrFormat("%-28s %5s %10s %21s %10s %6s %9s %10s %9s %5s\n", "strategy", "GPUs",
                      "step ms", "80 %", "samples/s", "eff %", "hours", "cost", "GiB", "fits");
  for (const StrategyReport& one : reports) {
    absl::StrAppendFormat(&out, "%-28s %5d %10.3f %10.3f-%10.3f %10.1f %6s %9s %10s %9.2f %5s%s\n",
                          ToString(one.strategy), one.strategy.ranks(), one.step.median / 1e3,
                          one.step.low / 1e3, one.step.high / 1e3, one.samples_per_second,
                          Optional(one.efficiency, 1, 100), Optional(one.hours, 2),
                          Optional(one.cost, 2), MostMemory(one), one.fits ? "yes" : "no",
                          one.step.in_hull ? "" : "  extrapolated");
  }
  return out;
}

std::string StrategyText(const StrategyReport& report) {
  std::string out =
      absl::StrFormat("%s: %.3f ms a step (80 %%: %.3f to %.3f), %.1f samples/s\n",
                      ToString(report.strategy), report.step.median / 1e3, report.step.low / 1e3,
                      report.step.high / 1e3, report.samples_per_second);
  const StepParts& parts = report.parts;
  const double whole = std::max(parts.sum(), 1e-9);
  const std::pair<const char*, double> rows[] = {
      {"compute", parts.compute}, {"exposed communication", parts.exposed_communication},
      {"bubble", parts.bubble},   {"host", parts.host},
      {"data", parts.data},       {"imbalance", parts.imbalance}};
  for (const auto& [name, micros] : rows) {
    absl::StrAppendFormat(&out, "  %-22s %10.3f ms %5.1f %%\n", name, micros / 1e3,
                          100 * micros / whole);
  }
  for (size_t rank = 0; rank < report.memory.size(); ++rank) {
    const MemoryFit& fit = report.memory[rank];
    const double gib = std::exp2(30);
    absl::StrAppendFormat(
        &out,
        "  memory%s: parameters %.2f, gradients %.2f, optimizer %.2f, activations "
        "%.2f, working %.2f, buckets %.2f, fixed %.2f GiB\n",
        report.memory.size() > 1 ? absl::StrCat(" of stage ", rank) : "", fit.params / gib,
        fit.gradients / gib, fit.optimizer / gib, fit.activations / gib, fit.working / gib,
        fit.buckets / gib, fit.fixed / gib);
  }
  absl::StrAppend(&out, "  ", report.memory_text, "\n");
  absl::StrAppendFormat(&out, "  bottleneck: %s\n  relief: %s\n", report.bottleneck, report.relief);
  absl::StrAppendFormat(&out,
                        "  confidence: %.0f %% of the time of kernels and collectives rests on "
                        "measurements of such sizes\n",
                        100 * report.measured_share);
  for (size_t i = 0; i < report.extrapolated.size() && i < 5; ++i) {
    const PlanInput& input = report.extrapolated[i];
    absl::StrAppendFormat(&out, "  extrapolated: %s, %.3f ms, from %s\n", input.what,
                          input.median / 1e3, input.source);
  }
  return out;
}

std::string ComparisonText(const Comparison& comparison) {
  std::string out = StrategyTable(comparison.ranking);
  if (!comparison.ranking.empty()) {
    absl::StrAppend(&out, "\n", StrategyText(comparison.ranking.front()));
    absl::StrAppendFormat(&out,
                          "  expected regret %.1f %%: errors may hide that another is faster\n",
                          100 * comparison.expected_regret);
  }
  for (const Comparison::Refused& one : comparison.refused) {
    absl::StrAppend(&out, "not possible: ", one.why, "\n");
  }
  return out;
}

std::string ScalingText(absl::Span<const StrategyReport> reports, int columns) {
  const std::vector<ScalingPoint> points = ScalingOf(reports);
  double most = 0;
  for (const ScalingPoint& point : points) most = std::max({most, point.ideal, point.high});
  if (most <= 0) return "";
  constexpr int kMargin = 32;
  const double width = std::max(columns - kMargin, 10);
  std::string out;
  for (const ScalingPoint& point : points) {
    const auto at = [&](double value) { return static_cast<size_t>(value / most * width); };
    std::string bar(static_cast<size_t>(width) + 1, ' ');
    for (size_t i = 0; i < at(point.samples); ++i) bar[i] = '#';
    for (size_t i = at(point.low); i < at(point.high); ++i) {
      bar[i] = i < at(point.samples) ? '=' : '-';
    }
    if (point.ideal > 0) bar[at(point.ideal)] = '|';
    bar.erase(bar.find_last_not_of(' ') + 1);
    absl::StrAppendFormat(&out, "%5d GPUs %10.1f /s %s\n", point.gpus, point.samples, bar);
  }
  absl::StrAppend(&out, "# samples a second; = and - their 80 % interval; | as many GPUs alone\n");
  return out;
}

}  // namespace ebb::perfmodel
