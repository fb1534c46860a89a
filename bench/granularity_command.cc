#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "bench/commands.h"
#include "bench/granularity.h"
#include "bench/report.h"

namespace ebb::bench {
namespace {

std::string Table(const GranularityReport& report) {
  std::string out = absl::StrFormat(
      "%s"
      "two equal jobs at %g of the batch of a job alone, %d steps each\n\n"
      "summed progress (sub-models of a step) by forward groups\n%-16s %6s",
      SimulatedHead(report.device), report.options.fraction, report.options.steps, "model",
      "batch");
  for (const int64_t groups : report.options.groups) absl::StrAppendFormat(&out, " %12d", groups);
  out += "\n";
  for (const GranularityRow& row : report.models) {
    absl::StrAppendFormat(&out, "%-16s %6d", row.name, row.batch);
    for (const GranularityPoint& point : row.points) {
      absl::StrAppendFormat(&out, " %6.3f (%3d)", point.progress, point.sub_models);
    }
    out += "\n";
  }
  return out;
}

std::string Json(const GranularityReport& report) {
  std::vector<std::string> models;
  for (const GranularityRow& row : report.models) {
    std::vector<std::string> points;
    for (const GranularityPoint& point : row.points) {
      points.push_back(absl::StrFormat(
          "      {\"groups\": %d, \"sub_models\": %d, \"progress\": %.6f, \"concurrent\": %.6f}",
          point.groups, point.sub_models, point.progress, point.concurrent));
    }
    models.push_back(absl::StrFormat("    {\"name\": %s, \"batch\": %d, \"groups\": [\n%s\n    ]}",
                                     Quoted(row.name), row.batch, absl::StrJoin(points, ",\n")));
  }
  return absl::StrFormat(
      "{\n%s  \"fraction\": %g,\n  \"steps\": %d,\n  \"models\": [\n%s\n"
      "  ]\n}\n",
      SimulatedFields(report.device), report.options.fraction, report.options.steps,
      absl::StrJoin(models, ",\n"));
}

}  // namespace

absl::Status Granularity(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags, ParseFlags(args, {"device", "models", "groups",
                                                            "fraction", "steps", "json"}));
  GranularityOptions options;
  options.device = TextOf(flags, "device", options.device);
  options.models = ListOf(flags, "models");
  EBB_ASSIGN_OR_RETURN(options.groups, NumbersOf(flags, "groups", options.groups, 1, 64));
  EBB_ASSIGN_OR_RETURN(options.fraction, RealOf(flags, "fraction", options.fraction, 0.01, 1));
  // With fewer steps the first job could end before the other has joined.
  EBB_ASSIGN_OR_RETURN(options.steps, NumberOf(flags, "steps", options.steps, 3, 100'000));
  EBB_ASSIGN_OR_RETURN(const GranularityReport report,
                       MeasureGranularity(options, [](const std::string& model) {
                         std::fprintf(stderr, "%s ...\n", model.c_str());
                       }));
  std::fputs(Table(report).c_str(), stdout);
  return WriteJson(flags, Json(report));
}

}  // namespace ebb::bench
