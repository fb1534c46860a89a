#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status.h"
#include "bench/allocators/replay.h"
#include "bench/commands.h"
#include "bench/report.h"

namespace ebb::bench {
namespace {

std::string Table(const AllocatorReport& report) {
  std::string out = absl::StrFormat(
      "%s"
      "two jobs at %g of the batch of a job alone, %d steps each; cost measured on this "
      "machine's "
      "CPU, median of %d runs\n\n%-36s %10s",
      SimulatedHead(report.device, "Traces simulated"), report.options.fraction,
      report.options.steps, report.options.runs, "peak / live peak", "live peak");
  const auto header = [&] {
    for (const std::string& name : AllocatorNames()) absl::StrAppendFormat(&out, " %11s", name);
    out += "\n";
  };
  header();
  for (const TraceFigures& trace : report.traces) {
    absl::StrAppendFormat(&out, "%-36s %10s", trace.name, FormatBytes(trace.live_peak));
    for (const std::string& name : AllocatorNames()) {
      absl::StrAppendFormat(&out, " %11.3f", trace.allocators.at(name).over_live);
    }
    out += "\n";
  }
  absl::StrAppendFormat(&out, "\n%-36s %10s", "nanoseconds an operation", "operations");
  header();
  for (const TraceFigures& trace : report.traces) {
    absl::StrAppendFormat(&out, "%-36s %10d", trace.name, trace.ops);
    for (const std::string& name : AllocatorNames()) {
      absl::StrAppendFormat(&out, " %11.1f", trace.allocators.at(name).ns_per_op);
    }
    out += "\n";
  }
  return out;
}

std::string Json(const AllocatorReport& report) {
  std::vector<std::string> traces;
  for (const TraceFigures& trace : report.traces) {
    std::vector<std::string> allocators;
    for (const std::string& name : AllocatorNames()) {
      const AllocatorFigures& of = trace.allocators.at(name);
      allocators.push_back(
          absl::StrFormat("      %s: {\"peak\": %d, \"over_live\": %.6f, \"ns_per_op\": %.3f}",
                          Quoted(name), of.peak.count(), of.over_live, of.ns_per_op));
    }
    traces.push_back(absl::StrFormat(
        "    {\"name\": %s, \"ops\": %d, \"live_peak\": %d, \"allocators\": {\n%s\n    }}",
        Quoted(trace.name), trace.ops, trace.live_peak.count(), absl::StrJoin(allocators, ",\n")));
  }
  return absl::StrFormat(
      "{\n%s  \"fraction\": %g,\n  \"steps\": %d,\n  \"runs\": %d,\n"
      "  \"traces\": [\n%s\n  ]\n}\n",
      SimulatedFields(report.device), report.options.fraction, report.options.steps,
      report.options.runs, absl::StrJoin(traces, ",\n"));
}

}  // namespace

absl::Status Allocators(const Args& args) {
  EBB_ASSIGN_OR_RETURN(const Flags flags,
                       ParseFlags(args, {"device", "models", "fraction", "steps", "runs", "json"}));
  AllocatorOptions options;
  options.device = TextOf(flags, "device", options.device);
  options.models = ListOf(flags, "models");
  EBB_ASSIGN_OR_RETURN(options.fraction, RealOf(flags, "fraction", options.fraction, 0.01, 1));
  EBB_ASSIGN_OR_RETURN(options.steps, NumberOf(flags, "steps", options.steps, 2, 1000));
  EBB_ASSIGN_OR_RETURN(const int64_t runs, NumberOf(flags, "runs", options.runs, 1, 1000));
  options.runs = static_cast<int>(runs);
  EBB_ASSIGN_OR_RETURN(const AllocatorReport report,
                       CompareAllocators(options, [](const std::string& trace) {
                         std::fprintf(stderr, "%s ...\n", trace.c_str());
                       }));
  std::fputs(Table(report).c_str(), stdout);
  return WriteJson(flags, Json(report));
}

}  // namespace ebb::bench
