#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "perfmodel/report_text.h"

namespace ebb::perfmodel {
namespace {

std::string Text(absl::string_view text) {
  std::string out = "\"";
  for (const char c : Escaped(text)) {  // printable
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}
std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.10g", value) : "null";
}
std::string Optional(const std::optional<double>& value) {
  return value.has_value() ? Number(*value) : "null";
}

std::string Memory(const MemoryFit& fit) {
  return absl::StrCat(
      "{\"params\": ", Number(fit.params), ", \"gradients\": ", Number(fit.gradients),
      ", \"optimizer\": ", Number(fit.optimizer), ", \"activations\": ", Number(fit.activations),
      ", \"working\": ", Number(fit.working), ", \"buckets\": ", Number(fit.buckets),
      ", \"fixed\": ", Number(fit.fixed), ", \"total\": ", Number(fit.total()), "}");
}

std::string Extrapolated(const PlanInput& input) {
  return absl::StrCat("{\"what\": ", Text(input.what), ", \"source\": ", Text(input.source),
                      ", \"us\": ", Number(input.median), "}");
}

}  // namespace

std::string ToJson(const StrategyReport& report) {
  const StepParts& parts = report.parts;
  const auto joined = [](const auto& items, auto format) {
    return absl::StrJoin(items, ", ", [&](std::string* out, const auto& item) {
      absl::StrAppend(out, format(item));
    });
  };
  return absl::StrCat(
      "{\"strategy\": ", Text(ToString(report.strategy)), ", \"gpus\": ", report.strategy.ranks(),
      ", \"batch\": ", report.batch, ", \"step_us\": ", Number(report.step.median),
      ", \"step_us_low\": ", Number(report.step.low),
      ", \"step_us_high\": ", Number(report.step.high),
      ", \"in_hull\": ", report.step.in_hull ? "true" : "false",
      ", \"source\": ", Text(report.step.source),
      ", \"samples_per_second\": ", Number(report.samples_per_second),
      ", \"efficiency\": ", Optional(report.efficiency), ", \"hours\": ", Optional(report.hours),
      ", \"cost\": ", Optional(report.cost),
      ", \"breakdown_us\": {\"compute\": ", Number(parts.compute),
      ", \"exposed_communication\": ", Number(parts.exposed_communication),
      ", \"bubble\": ", Number(parts.bubble), ", \"host\": ", Number(parts.host),
      ", \"data\": ", Number(parts.data), ", \"imbalance\": ", Number(parts.imbalance),
      "}, \"memory\": [", joined(report.memory, Memory),
      "], \"fits\": ", report.fits ? "true" : "false",
      ", \"memory_text\": ", Text(report.memory_text),
      ", \"measured_share\": ", Number(report.measured_share), ", \"extrapolated\": [",
      joined(report.extrapolated, Extrapolated), "], \"bottleneck\": ", Text(report.bottleneck),
      ", \"relief\": ", Text(report.relief), "}");
}

std::string ToJson(const Comparison& comparison) {
  std::vector<std::string> ranking, refused;
  for (const StrategyReport& report : comparison.ranking) ranking.push_back(ToJson(report));
  for (const Comparison::Refused& one : comparison.refused) {
    refused.push_back(absl::StrCat("{\"strategy\": ", Text(ToString(one.strategy)),
                                   ", \"why\": ", Text(one.why), "}"));
  }
  return absl::StrCat("{\n  \"alone\": ", ToJson(comparison.alone), ",\n  \"ranking\": [\n    ",
                      absl::StrJoin(ranking, ",\n    "), "\n  ],\n  \"refused\": [",
                      absl::StrJoin(refused, ", "),
                      "],\n  \"expected_regret\": ", Number(comparison.expected_regret), "\n}\n");
}

}  // namespace ebb::perfmodel
